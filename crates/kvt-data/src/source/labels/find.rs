//! The tables of labels in a folder, by their columns.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::DELIMITERS;
use crate::{listing, regular};

/// The most bytes before the end of the line that names the columns.
const HEAD: u64 = 1 << 16;

/// The tables of labels directly in a folder, as `data.labels` names them: files that end in `.csv` or `.tsv`, with the columns `path` and
/// `label`. Sorted; hidden ones are passed over.
pub fn label_tables(folder: &Path) -> Vec<String> {
    let tables = listing::shown(folder).filter(|path| is_table(path));
    let names = tables.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whether a file is such a table.
fn is_table(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    if !["csv", "tsv"]
        .iter()
        .any(|it| ending.eq_ignore_ascii_case(it))
    {
        return false;
    }
    let Ok(file) = regular::open(path) else {
        return false;
    };
    let lines = BufReader::new(file.take(HEAD)).lines();
    let mut lines = lines.map_while(Result::ok);
    let head = lines.find(|line| !line.trim().is_empty());
    let head = head.unwrap_or_default();
    let is_around = |c: char| c.is_whitespace() || c == '"' || c == '\u{feff}';
    let has = |column: &str| {
        let mut cells = head.split(DELIMITERS);
        cells.any(|cell| cell.trim_matches(is_around).eq_ignore_ascii_case(column))
    };
    has("path") && has("label")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn tables_are_found_by_their_columns() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("labels.csv", &b"path,label\n1.png,a\n"[..]),
            ("b.TSV", b"\n\nlabel\twidth\tPath\n"),
            ("a.csv", b"\xef\xbb\xbf\"path\" ; \"label\"\n"),
            ("file_names.csv", b"file_name,label\n"),
            ("notes.txt", b"path,label\n"),
            (".hidden.csv", b"path,label\n"),
            ("latin.csv", b"path,label,gr\xfcn\n"),
            ("empty.csv", b""),
        ] {
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        fs_err::create_dir(dir.path().join("folder.csv")).unwrap();
        let found = label_tables(dir.path());
        assert_eq!(found, ["a.csv", "b.TSV", "labels.csv"]);
        assert!(label_tables(&dir.path().join("none")).is_empty());
    }
}
