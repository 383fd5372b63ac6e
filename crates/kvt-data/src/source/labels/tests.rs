#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn read(text: &str) -> Result<Labels, DataError> {
    read_as(text, false)
}

fn read_as(text: &str, label_sets: bool) -> Result<Labels, DataError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("labels.csv");
    fs_err::write(&path, text).unwrap();
    let labels = Labels::read(&path, label_sets)?;
    assert_eq!(labels.folder, dir.path());
    let inner = |row: Row| Row {
        path: row.path.strip_prefix(dir.path()).unwrap().to_owned(),
        ..row
    };
    Ok(Labels {
        rows: labels.rows.into_iter().map(inner).collect(),
        ..labels
    })
}

#[test]
fn rows_are_as_the_file_has_them() {
    let text = "\u{feff}label , Path,width,split\r\n\r\ncat|dog,a/1.png,3,train\r\n\r\n\r\n\"a, \"\"b\"\"\", ./x/../b.png,\"4\nm\",val\r\n,c.png,5,test";
    let labels = read(text).unwrap();
    let row = |name: &str, path: &str, label: &str, split: &str, line| Row {
        name: name.to_owned(),
        path: path.into(),
        label: label.to_owned(),
        split: split.to_owned(),
        line,
    };
    assert_eq!(
        labels.rows,
        [
            row("a/1.png", "a/1.png", "cat|dog", "train", 3),
            row("./x/../b.png", "b.png", "a, \"b\"", "val", 6),
            // Whether an empty label means something, the table does not know.
            row("c.png", "c.png", "", "test", 8),
        ]
    );
    assert_eq!(
        (labels.has_splits, &labels.unread[..]),
        (true, &["width".to_owned()][..])
    );
    for delimiter in [";", "\t"] {
        let labels = read(&format!("path{delimiter}label\n1,2.png{delimiter}a\n")).unwrap();
        assert_eq!(labels.rows, [row("1,2.png", "1,2.png", "a", "", 2)]);
        assert!(!labels.has_splits);
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, line, expected) in [
        ("file,label\n1.png,a\n", 1, "no column `path`"),
        ("\n\npath,class\n1.png,a\n", 3, "it has `path`, `class`"),
        ("path,label,Label\n1.png,a,b\n", 1, "two columns `label`"),
        (
            "path,label\n1.png,a\n\n\n2.png,b,c\n",
            5,
            "it has 3 cells, but there are 2 columns",
        ),
        ("path,label\n1.png,a\n,b\n", 3, "the column `path` is empty"),
        (
            "path,label,split\n1.png,a,\n",
            2,
            "the column `split` is empty",
        ),
        (
            "path,label\n1.png,a\n2.png,a\n./b/../1.png,b\n",
            4,
            "`./b/../1.png` is in line 2 already",
        ),
        (
            "path,label\n1.png,\"a\n2.png,b\"\n",
            2,
            "the column `label` goes on",
        ),
        (
            "path,label,split\n1.png,a,\"train\n2.png,b,val\"\n",
            2,
            "the column `split` goes on",
        ),
        (
            "path,label\n1.png,\"a\n2.png,\"b\"\n",
            2,
            "text follows a closing quotation mark",
        ),
        (
            "path,label\n1.png,dog\n\n2.png,\"cat\"x\n",
            4,
            "text follows a closing quotation mark",
        ),
        (
            "path,\"label\" \"\n1.png,a\n",
            1,
            "text follows a closing quotation mark",
        ),
        // A column that is not read would take in rows without a word.
        (
            "path,label,note\n1.png,a,\n2.png,a,\"big\n3.png,b,\n",
            3,
            "a quotation mark is not closed",
        ),
        ("path,label\n1.png,\"a", 2, "a quotation mark is not closed"),
        (
            "\"path,label\n1.png,a\n",
            1,
            "a quotation mark is not closed",
        ),
    ] {
        match read(text).unwrap_err() {
            DataError::Row {
                line: found,
                reason,
                ..
            } => {
                assert_eq!(found, line, "{reason}");
                assert!(reason.contains(expected), "{reason}");
            }
            other => unreachable!("{other}"),
        }
    }
    for text in ["", "\n", "path,label\n\n"] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, DataError::Records { .. }), "{error}");
    }
}

/// As a spreadsheet saves umlauts in Latin-1, and as a disk that was full leaves a file.
#[test]
fn bytes_that_are_no_text_are_named_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("labels.csv");
    for (table, expected) in [
        (&b"path,label\n1.png,gr\xfcn\n"[..], "(line 2: byte 0xfc)"),
        (b"path,label\n1.png,a\n2.png,\0\0", "(line 3: byte 0x00)"),
    ] {
        fs_err::write(&path, table).unwrap();
        let error = Labels::read(&path, false).unwrap_err().to_string();
        assert!(
            error.contains("labels.csv`: it is not UTF-8 text ") && error.ends_with(expected),
            "{error}"
        );
    }
}

#[test]
fn a_column_for_each_class_is_its_labels() {
    let labels = read_as("dog,path,cat,split\n1,a.png,1,train\n0,b.png,0,val\n", true).unwrap();
    let found: Vec<&str> = labels.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(found, ["dog|cat", ""]);
    assert_eq!(labels.classes, ["dog", "cat"]);
    assert!(labels.unread.is_empty() && labels.has_splits);
    // Beside a column of labels, others are not classes.
    let labels = read_as("path,label,cat\na.png,x|y,1\n", true).unwrap();
    assert_eq!(
        (labels.rows[0].label.as_str(), labels.classes.len()),
        ("x|y", 0)
    );
    assert_eq!(labels.unread, ["cat"]);
    for (text, line, expected) in [
        (
            "path,cat\na.png,1\nb.png,yes\n",
            3,
            "the column `cat` is `yes`",
        ),
        ("path,cat\na.png,\n", 2, "the column `cat` is ``"),
        ("path,cat,cat\na.png,1,1\n", 1, "two columns `cat`"),
        ("path,a|b\na.png,1\n", 1, "`a|b`, which cannot be the name"),
        (",path,cat\n0,a.png,1\n", 1, "column 1 has no name"),
        ("path,split\na.png,train\n", 1, "no column `label`"),
    ] {
        match read_as(text, true).unwrap_err() {
            DataError::Row {
                line: found,
                reason,
                ..
            } => {
                assert!(
                    found == line && reason.contains(expected),
                    "{found}: {reason}"
                );
            }
            other => unreachable!("{other}"),
        }
    }
}

#[test]
fn a_file_has_one_path() {
    for (path, expected) in [
        ("a/./b/../c.png", "a/c.png"),
        ("../a/b.png", "../a/b.png"),
        ("../../a/../b.png", "../../b.png"),
        ("/a/../../b.png", "/../b.png"),
    ] {
        assert_eq!(plain(Path::new(path)), Path::new(expected));
    }
}
