//! What goes to the terminal: results to stdout, everything else to stderr.
//!
//! Names of tensors, classes, keys and files come from files that others made. A control character in
//! one would be a command to the terminal, so none is printed but our own line ends and tabs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

/// Set in the processes of a job that are not the first: what they have to say, it says.
static SILENT: AtomicBool = AtomicBool::new(false);

/// The bar of a run, above which everything is printed: also what another thread says, such as the one that hears signals.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// From now on lines are printed above a bar, or without one.
pub(super) fn above(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// From now on nothing is printed, but by [`error_of_process`].
pub(super) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Whether nothing is printed.
pub(super) fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints an error that only this process of a job has.
pub(super) fn error_of_process(rank: usize, size: usize, text: &str) {
    SILENT.store(false, Ordering::Relaxed);
    error(&format!("process {rank} of {size}: {text}"));
    // The error comes back to where errors are printed.
    silence();
}

/// Prints a result, with a line end.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    if SILENT.load(Ordering::Relaxed) {
        return Ok(());
    }
    let text = printable(text);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints a line for people. A closed stderr is no reason to stop.
pub(super) fn status(text: &str) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let write = || {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    };
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Prints an error.
pub(super) fn error(text: &str) {
    status(&format!("error: {text}"));
}

/// Prints a warning.
pub(super) fn warning(text: &str) {
    status(&format!("warning: {text}"));
}

/// Whether a person watches stderr.
pub(super) fn is_watched() -> bool {
    !SILENT.load(Ordering::Relaxed) && io::stderr().is_terminal()
}

/// A text without control characters but line ends and tabs.
fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A text for a place of one line, such as a cell of a table: without any control character.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, char::is_control)
}

/// Writes characters as JSON and TOML do within texts, so that what they had escaped anyway stays as it was
/// and what they let through is still the same text. Control characters have four digits.
fn escape(text: &str, escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escaped) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if escaped(c) {
            // Writing to a string cannot fail.
            let _ = write!(clean, "\\u{:04x}", u32::from(c));
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let red = "a\u{1b}[31mred\u{9b}2J\u{7}\r\n\tb";
        assert_eq!(
            printable(red),
            "a\\u001b[31mred\\u009b2J\\u0007\\u000d\n\tb"
        );
        assert_eq!(one_line("a\nb\tc\0"), "a\\u000ab\\u0009c\\u0000");
        for plain in ["", "weights.0 \u{fc} \u{65e5}", "a\n\tb"] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    /// JSON escapes most of them itself; what it lets through is another spelling of the same text.
    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "a\u{1b}\u{7f}": "\u{9b}31m\n" });
        for text in [value.to_string(), format!("{value:#}")] {
            let printed = printable(&text);
            assert!(!printed.contains(|c: char| c.is_control() && c != '\n'));
            let read: serde_json::Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(read, value);
        }
    }
}
