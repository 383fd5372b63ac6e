//! Text files given by the user, such as configurations and lists of classes, read completely but with a size limit. Also lists
//! of names and numbers of things in messages, and quoting of shell words.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::{escape, regular};

/// Maximum size of a list of names in bytes: far more than a million classes need.
pub const LARGEST_LIST: u64 = 1 << 26;

/// Reads a text file of at most `most` bytes, without the byte-order mark that editors on Windows put before it.
///
/// Besides regular files, only those passed by a shell are read, standard input and `<(...)`: another pipe may have no
/// writer, and a device has no end.
///
/// # Errors
/// If the file cannot be read, is of another kind, is too long, or is not valid UTF-8, with the line; the message names it.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let refuse = |reason: &str| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, reason);
        Err(regular::named(path, &error))
    };
    let bytes = if is_handed_over(path) {
        File::open(path)
            .and_then(|file| regular::content(file, most))
            .map_err(|error| regular::named(path, &error))?
    } else {
        regular::read_at_most(path, most)?
    };
    if UTF_16.iter().any(|mark| bytes.starts_with(mark)) {
        return refuse("it is UTF-16 text: save it as UTF-8");
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let place = error.utf8_error().valid_up_to();
            return refuse(&not_text(error.as_bytes(), place));
        }
    };
    // Without its mark, UTF-16 has a zero beside each of its ASCII characters.
    if let Some(place) = text.find('\0') {
        return refuse(&not_text(text.as_bytes(), place));
    }
    let bare = text.strip_prefix('\u{feff}').map(str::to_owned);
    Ok(bare.unwrap_or(text))
}

/// What is wrong with a text that has a byte of something else at this place.
fn not_text(bytes: &[u8], place: usize) -> String {
    let before = bytes.get(..place).unwrap_or_default();
    let line = before.split(|byte| *byte == b'\n').count();
    let byte = bytes.get(place).copied().unwrap_or_default();
    format!("it is not UTF-8 text (line {line}: byte {byte:#04x})")
}

/// What is there, in words around it; nothing if it is not.
pub(crate) fn around<T: Display>(before: &str, value: &Option<T>, behind: &str) -> String {
    let value = value.as_ref();
    value.map_or_else(String::new, |value| format!("{before}{value}{behind}"))
}

/// The byte-order marks of UTF-16.
const UTF_16: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// Whether the path refers to an open file of this process, which may be a pipe that can be read once.
pub(crate) fn is_handed_over(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

/// A number in a message, as Rust and TOML read it: `2.5`, `3`, `1e-300`. Its plain form could have hundreds of digits.
pub fn short(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Maximum number of names in a message.
const NAMES: usize = 5;

/// Up to five names in backticks, and the number of the rest.
pub fn quoted(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMES)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    match names.len() {
        0 => "none".to_owned(),
        1..=NAMES => shown,
        more => format!("{shown} and {} more", more - NAMES),
    }
}

/// A number of things: `1 epoch`, `0.5 epochs`.
pub fn counted(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// A word of a command, quoted for a shell if necessary.
pub fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@=".contains(c);
    // Some shells look up a program after `=` at the beginning.
    let is_safe = !word.is_empty() && !word.starts_with('=');
    if is_safe && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // As it is, a terminal would not show it, and what it shows instead would be another word.
    if escape::one_line(word) != word {
        let bytes = word.bytes().map(|byte| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        });
        return format!("$'{}'", bytes.collect::<String>());
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use fs_err as fs;

    #[test]
    fn a_message_lists_five_names() {
        let names: Vec<String> = (1..=7).map(|i| i.to_string()).collect();
        assert_eq!(quoted(&[]), "none");
        assert_eq!(quoted(&names[..2]), "`1`, `2`");
        assert_eq!(quoted(&names[..5]), "`1`, `2`, `3`, `4`, `5`");
        assert_eq!(quoted(&names), "`1`, `2`, `3`, `4`, `5` and 2 more");
    }

    #[test]
    fn one_thing_is_no_plural() {
        let found = [0.0, 0.5, 1.0, 2.0].map(|number| counted(number, "epoch"));
        assert_eq!(found, ["0 epochs", "0.5 epochs", "1 epoch", "2 epochs"]);
    }

    #[test]
    fn numbers_stay_short() {
        let found = [3.0, 2.5, 0.999, 1e-300, 1e300, 1e-9, 0.0].map(short);
        assert_eq!(found, ["3", "2.5", "0.999", "1e-300", "1e300", "1e-9", "0"]);
    }

    #[test]
    fn words_for_a_shell() {
        for (word, expected) in [
            ("runs/a-b_c.1", "runs/a-b_c.1"),
            ("my photos", "'my photos'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("optim.lr=1e-3", "optim.lr=1e-3"),
            ("=ls", "'=ls'"),
            ("", "''"),
            ("größe 1", "'größe 1'"),
            ("a\u{1b}[1m'\\", "$'a\\x1b[1m\\'\\\\'"),
            ("x\u{202e}y", "$'x\\xe2\\x80\\xaey'"),
        ] {
            assert_eq!(shell(word), expected);
        }
    }

    #[test]
    fn a_file_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "grün").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "grün");
        let error = read_text(&path, 4).unwrap_err().to_string();
        assert!(
            error.contains("a.txt") && error.contains("4 bytes"),
            "{error}"
        );
        let error = read_text(folder.path(), 9).unwrap_err().to_string();
        assert!(error.ends_with("a folder, not a file"), "{error}");
        let error = read_text(&folder.path().join("b.txt"), 9).unwrap_err();
        assert!(error.to_string().starts_with("no file `"), "{error}");
    }

    /// As Notepad, PowerShell and Excel write it.
    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text_and_other_encodings_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_text(&path, 99).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"\xef\xbb\xbfcat\r\ndog").unwrap(), "cat\r\ndog");
        // Only the first one is a mark.
        assert_eq!(read(b"\xef\xbb\xbf\xef\xbb\xbf").unwrap(), "\u{feff}");
        let marked = "it is UTF-16 text: save it as UTF-8";
        for (bytes, reason) in [
            (&b"\xff\xfec\0a\0t\0"[..], marked),
            (b"\xfe\xff\0c\0a\0t", marked),
            (b"c\0a\0t\0", "it is not UTF-8 text (line 1: byte 0x00)"),
            (
                b"a\r\n\ngr\xfcn",
                "it is not UTF-8 text (line 3: byte 0xfc)",
            ),
        ] {
            let error = read(bytes).unwrap_err();
            let expected = format!("failed to read `{}`: {reason}", path.display());
            assert_eq!(error, expected);
        }
    }

    /// Neither of them would ever end.
    #[cfg(unix)]
    #[test]
    fn a_pipe_that_nobody_writes_to_and_a_device_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&pipe, Path::new("/dev/zero")] {
            let error = read_text(path, 1000).unwrap_err().to_string();
            let name = path.display().to_string();
            assert!(
                error.contains(&name) && error.ends_with(", not a file"),
                "{error}"
            );
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_shell_hands_over_is_read() {
        use std::os::fd::AsRawFd as _;
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"seed = 1").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_text(Path::new(&path), 100).unwrap(), "seed = 1");
    }
}
