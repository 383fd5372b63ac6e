//! Problems of a configuration, and their locations.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a configuration gives no plan, or a plan cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read; the message names it.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// TOML cannot represent a value of a plan.
    #[error("the configuration cannot be written as TOML: {0}")]
    Write(#[from] toml::ser::Error),
    /// The files or overrides are invalid; all problems found, at least one.
    #[error("{}", render(.0))]
    Invalid(Vec<Problem>),
}

impl ConfigError {
    /// Problems in the order of the files, with overrides last.
    pub(super) fn invalid(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        Self::Invalid(problems)
    }
}

fn render(problems: &[Problem]) -> String {
    let mut parts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if problems.len() > 1 {
        parts.push(format!("{} problems in the configuration", problems.len()));
    }
    parts.join("\n\n")
}

/// A mistake, with its location and possible solutions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location of the mistake.
    pub place: Location,
    /// What is wrong.
    pub message: String,
    /// Possible solutions.
    pub help: Vec<String>,
}

impl Problem {
    pub(super) fn new(place: Location, message: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
            help: Vec::new(),
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

/// The location of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A file as a whole: for missing keys.
    File(PathBuf),
    /// A span of a file.
    Span {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The text of the line.
        text: String,
        /// Number of characters of the line in the span, at least 1.
        width: usize,
    },
    /// Words of the user that are not in a file, such as `--model NAME`; empty if the message already contains them.
    Said(String),
    /// The argument of a `--set`.
    Override(String),
}

impl Location {
    /// The location of a byte range in a file's text; a range over several lines ends with its first line.
    pub(super) fn span(path: &Path, text: &str, range: &Range<usize>) -> Self {
        let start = text.floor_char_boundary(range.start);
        let end = text.floor_char_boundary(range.end).max(start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let first_line = |range: Range<usize>| {
            let mut lines = text.get(range).unwrap_or_default().lines();
            lines.next().unwrap_or_default()
        };
        let (line, covered) = (first_line(line_start..text.len()), first_line(start..end));
        Self::Span {
            path: path.to_path_buf(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text: line.replace('\t', " "),
            width: covered.chars().count().max(1),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Location::Span {
                path,
                line,
                column,
                text,
                width,
            } => {
                let number = line.to_string();
                let gutter = " ".repeat(number.len() + 1);
                let indent = " ".repeat(column.saturating_sub(1));
                writeln!(f, "{}:{line}:{column}: {}", path.display(), self.message)?;
                writeln!(f, "{gutter}|")?;
                writeln!(f, "{number} | {text}")?;
                write!(f, "{gutter}| {indent}{}", "^".repeat(*width))?;
            }
            Location::File(path) => write!(f, "{}: {}", path.display(), self.message)?,
            Location::Said(words) if words.is_empty() => write!(f, "{}", self.message)?,
            Location::Said(words) => write!(f, "{words}: {}", self.message)?,
            Location::Override(argument) => write!(f, "--set {argument}: {}", self.message)?,
        }
        for help in &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}
