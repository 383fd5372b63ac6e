//! Figures and tables of papers, computed anew: `kvt reproduce`.
//!
//! An item is a file with an [`Item`], and one line in [`ITEMS`]. It computes numbers (CSV), a picture of them (SVG),
//! and a page (Markdown) that sets them beside what the paper states. Except for what is timed, the same program gives the
//! same numbers.

mod scram;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kvt_attention::AttentionError;

use crate::bench::BenchError;
use crate::fs::{check_writable, remove_leftovers, write_together};

/// All items, in the order of their papers.
pub const ITEMS: &[&dyn Item] = &[
    &scram::Fig2,
    &scram::Fig3,
    &scram::Fig4::PAPER,
    &scram::Recall::PAPER,
];

/// A figure or table of a paper.
pub trait Item: Sync {
    /// Its name on the command line, and of its files.
    fn name(&self) -> &'static str;

    /// What it shows, in one line.
    fn title(&self) -> &'static str;

    /// The paper, what it states, and what it leaves open, as Markdown.
    fn stated(&self) -> &'static str;

    /// Computes it. `progress` hears how many of how many steps are done.
    ///
    /// # Errors
    /// Whatever stops it.
    fn compute(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<Outcome, ReproduceError>;
}

/// What an item computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All numbers, with a header.
    pub csv: String,
    /// A picture of them.
    pub svg: String,
    /// How it was computed, and what came out, as Markdown.
    pub found: String,
}

/// Why an item was not computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// There is no item of a name.
    #[error("there is nothing called `{name}` to reproduce: the names are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Attention refuses its settings or inputs.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A time could not be taken.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The picture cannot be drawn.
    #[error("could not draw the figure: {0}")]
    Draw(String),
    /// A file cannot be written; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The item of a name.
///
/// # Errors
/// [`ReproduceError::Unknown`].
pub fn find(name: &str) -> Result<&'static dyn Item, ReproduceError> {
    let found = ITEMS.iter().find(|item| item.name() == name);
    found.copied().ok_or_else(|| {
        let known: Vec<String> = ITEMS
            .iter()
            .map(|item| format!("`{}`", item.name()))
            .collect();
        ReproduceError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

/// Computes an item and writes `<name>.csv`, `<name>.svg` and `<name>.md` into a folder, which is made if it is
/// missing. A file that cannot be written leaves all old ones, unless the process ends between their renames.
///
/// # Errors
/// If the files could not be written, which is found out first, or the item not be computed.
pub fn reproduce(
    item: &dyn Item,
    folder: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<PathBuf>, ReproduceError> {
    fs_err::create_dir_all(folder)?;
    remove_leftovers(folder)?;
    let paths =
        ["csv", "svg", "md"].map(|extension| folder.join(item.name()).with_extension(extension));
    for path in &paths {
        check_writable(path)?;
    }
    let outcome = item.compute(progress)?;
    let page = page(item, &outcome);
    let texts = [&outcome.csv, &outcome.svg, &page];
    write_together(&paths, |number, file| {
        file.write_all(texts[number].as_bytes())
    })?;
    Ok(paths.into())
}

fn page(item: &dyn Item, outcome: &Outcome) -> String {
    let (name, title) = (item.name(), item.title());
    format!(
        "# {title}\n\nMade by `kvt reproduce {name}`; all numbers are in [{name}.csv]({name}.csv).\n\n\
         ## What the paper states\n\n{}\n\n## What was computed\n\n{}\n\n![{title}]({name}.svg)\n",
        item.stated().trim(),
        outcome.found.trim(),
    )
}

/// A table in Markdown; numbers are aligned to the right.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let ruler = (0..header.len()).map(|column| if column == 0 { "---" } else { "---:" });
    let mut text = line(header.to_vec()) + &line(ruler.collect());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::fs::TEMPORARY_PREFIX;

    struct Half(bool);

    impl Item for Half {
        fn name(&self) -> &'static str {
            "half"
        }

        fn title(&self) -> &'static str {
            "Half"
        }

        fn stated(&self) -> &'static str {
            "\nIt is 0.5.\n"
        }

        fn compute(
            &self,
            progress: &mut dyn FnMut(usize, usize),
        ) -> Result<Outcome, ReproduceError> {
            progress(1, 1);
            if self.0 {
                return Err(ReproduceError::Draw("no ink".to_owned()));
            }
            Ok(Outcome {
                csv: "a\n0.5\n".to_owned(),
                svg: "<svg/>".to_owned(),
                found: table(&["a", "b"], &[vec!["x".to_owned(), "0.5".to_owned()]]),
            })
        }
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a").join("b");
        let mut heard = Vec::new();
        let error =
            reproduce(&Half(true), &at, &mut |done, of| heard.push((done, of))).unwrap_err();
        assert_eq!(error.to_string(), "could not draw the figure: no ink");
        assert_eq!(heard, [(1, 1)]);
        assert_eq!(fs_err::read_dir(&at).unwrap().count(), 0);
        // What a killed process left goes.
        fs_err::write(at.join(format!("{TEMPORARY_PREFIX}a1")), "half").unwrap();
        let paths = reproduce(&Half(false), &at, &mut |_, _| ()).unwrap();
        assert_eq!(
            paths,
            ["half.csv", "half.svg", "half.md"].map(|name| at.join(name))
        );
        let page = fs_err::read_to_string(&paths[2]).unwrap();
        assert!(
            page.starts_with("# Half\n\nMade by `kvt reproduce half`"),
            "{page}"
        );
        assert!(page.contains("states\n\nIt is 0.5.\n\n## What was computed\n\n| a | b |\n| --- | ---: |\n| x | 0.5 |\n"));
        assert_eq!(fs_err::read_dir(&at).unwrap().count(), 3);
        // Known before anything is computed.
        fs_err::remove_file(&paths[1]).unwrap();
        fs_err::create_dir(&paths[1]).unwrap();
        let mut heard = 0;
        assert!(reproduce(&Half(false), &at, &mut |_, _| heard += 1).is_err());
        assert_eq!(heard, 0);
    }

    #[test]
    fn names_are_different_and_found() {
        for (number, item) in ITEMS.iter().enumerate() {
            assert_eq!(find(item.name()).unwrap().title(), item.title());
            assert!(!item.title().contains('\n') && item.stated().contains("https://"));
            assert!(
                ITEMS[..number]
                    .iter()
                    .all(|other| other.name() != item.name())
            );
        }
        let Err(error) = find("scram-fig9") else {
            unreachable!()
        };
        let error = error.to_string();
        assert!(error.starts_with(
            "there is nothing called `scram-fig9` to reproduce: the names are `scram-fig2`, "
        ));
    }
}
