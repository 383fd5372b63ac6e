//! What goes to the terminal: results to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

/// Prints a result, with a line end.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints a line for people. A closed stderr is no reason to stop.
pub(super) fn status(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
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
    io::stderr().is_terminal()
}
