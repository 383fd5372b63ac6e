//! Figures and tables of papers, computed anew: `kvt reproduce`.
//!
//! An item is a file with an [`Item`], and one line in [`ITEMS`]. It computes numbers (CSV), a picture of them (SVG),
//! and a page (Markdown) that sets them beside what the paper states. What it is computed with is an [`Order`]: a data set, a
//! scale, a version of the paper. Except for what is timed, the same program gives the same numbers.

mod error;
mod item;
mod kvt;
mod order;
mod runs;
mod scram;

use std::io::Write;
use std::path::PathBuf;

pub use self::error::ReproduceError;
pub use self::item::{Item, Outcome};
pub use self::order::{Order, Scale, Version};
pub use self::runs::{Runs, sweep};
use crate::fs::{check_writable, remove_leftovers, write_together};
pub use crate::sweep::Watch;

/// All items, in the order of their papers.
pub const ITEMS: &[&dyn Item] = &[
    &kvt::Table1,
    &kvt::Table2,
    &kvt::Table3,
    &kvt::Speed::PAPER,
    &kvt::Fig1,
    &kvt::Fig2,
    &kvt::Fig3,
    &kvt::Fig4,
    &kvt::Fig5,
    &kvt::Lemmas::PAPER,
    &scram::Fig2,
    &scram::Fig3,
    &scram::Fig4::PAPER,
    &scram::Recall::PAPER,
];

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

/// Refuses a scale or a version that an item does not have.
///
/// # Errors
/// [`ReproduceError::Scale`], [`ReproduceError::Version`].
pub fn check(
    item: &dyn Item,
    scale: Option<Scale>,
    version: Option<Version>,
) -> Result<(), ReproduceError> {
    let (name, known) = (item.name(), item.scales());
    let has_scale = match scale {
        Some(scale) => known.contains(&scale),
        // What takes hours is not begun unasked.
        None => known.is_empty(),
    };
    if !has_scale {
        return Err(ReproduceError::Scale { name, known });
    }
    match version {
        Some(version) if !item.versions().contains(&version) => Err(ReproduceError::Version {
            name,
            version: version.name(),
        }),
        _ => Ok(()),
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduced {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// Runs that could not be trained, a line for each.
    pub failures: Vec<String>,
}

/// Computes an item and writes `<name>.csv`, `<name>.svg`, `<name>.md` and what else it has into the folder of the order, which is
/// made if it is missing. A file that cannot be written leaves all old ones, unless the process ends between their renames.
///
/// # Errors
/// If the files could not be written, which is found out first, or the item not be computed.
pub fn reproduce(
    item: &dyn Item,
    order: &Order,
    watch: &dyn Watch,
) -> Result<Reproduced, ReproduceError> {
    let folder = &order.out;
    fs_err::create_dir_all(folder)?;
    remove_leftovers(folder)?;
    let named = |extension| folder.join(format!("{}.{extension}", item.name()));
    let mut paths: Vec<PathBuf> = ["csv", "svg", "md"].map(named).into();
    for path in &paths {
        check_writable(path)?;
    }
    let outcome = item.compute(order, watch)?;
    let page = page(item, order, &outcome);
    let mut texts = vec![
        outcome.csv.as_bytes(),
        outcome.svg.as_bytes(),
        page.as_bytes(),
    ];
    for (name, bytes) in &outcome.files {
        paths.push(folder.join(name));
        texts.push(bytes);
    }
    write_together(&paths, |number, file| file.write_all(texts[number]))?;
    Ok(Reproduced {
        paths,
        failures: outcome.failures,
    })
}

fn page(item: &dyn Item, order: &Order, outcome: &Outcome) -> String {
    let (name, title) = (item.name(), item.title());
    let mut command = format!("kvt reproduce {name}");
    if !item.scales().is_empty() {
        command += &format!(" --data DATA --scale {}", order.scale);
    }
    if let Some(seeds) = order.seeds.filter(|_| !item.scales().is_empty()) {
        command += &format!(" --seeds {seeds}");
    }
    if item.versions().len() > 1 {
        command += &format!(" --version {}", order.version.name());
    }
    format!(
        "# {title}\n\nMade by `{command}`; all numbers are in [{name}.csv]({name}.csv).\n\n\
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

    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engine::Workload;
    use crate::fs::TEMPORARY_PREFIX;
    use crate::run::{Event, Listener, RunError};

    /// Remembers what it hears.
    #[derive(Default)]
    pub(super) struct Heard {
        steps: Mutex<Vec<(usize, usize)>>,
        lines: Mutex<Vec<String>>,
        stop: AtomicBool,
    }

    impl Heard {
        pub(super) fn steps(&self) -> Vec<(usize, usize)> {
            self.steps.lock().unwrap().clone()
        }
    }

    impl Watch for Heard {
        fn progress(&self, done: usize, of: usize) {
            self.steps.lock().unwrap().push((done, of));
        }

        fn say(&self, text: &str) {
            self.lines.lock().unwrap().push(text.to_owned());
        }

        fn warn(&self, text: &str) {
            self.say(text);
        }

        fn training(&self, _: &str, _: Workload, _: bool) -> Box<dyn Listener> {
            struct Deaf;

            impl Listener for Deaf {
                fn event(&mut self, _event: &Event) -> Result<(), RunError> {
                    Ok(())
                }
            }

            Box::new(Deaf)
        }

        fn stop(&self) -> &AtomicBool {
            &self.stop
        }
    }

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

        fn compute(&self, _order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
            watch.progress(1, 1);
            if self.0 {
                return Err(ReproduceError::Draw("no ink".to_owned()));
            }
            Ok(Outcome {
                csv: "a\n0.5\n".to_owned(),
                svg: "<svg/>".to_owned(),
                found: table(&["a", "b"], &[vec!["x".to_owned(), "0.5".to_owned()]]),
                files: vec![("more.txt".to_owned(), b"more".to_vec())],
                ..Outcome::default()
            })
        }
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a").join("b");
        let heard = Heard::default();
        let order = Order {
            out: at.clone(),
            ..Order::default()
        };
        let error = reproduce(&Half(true), &order, &heard).unwrap_err();
        assert_eq!(error.to_string(), "could not draw the figure: no ink");
        assert_eq!(heard.steps(), [(1, 1)]);
        assert_eq!(fs_err::read_dir(&at).unwrap().count(), 0);
        // What a killed process left goes.
        fs_err::write(at.join(format!("{TEMPORARY_PREFIX}a1")), "half").unwrap();
        let paths = reproduce(&Half(false), &order, &heard).unwrap().paths;
        assert_eq!(
            paths,
            ["half.csv", "half.svg", "half.md", "more.txt"].map(|name| at.join(name))
        );
        let page = fs_err::read_to_string(&paths[2]).unwrap();
        assert!(
            page.starts_with("# Half\n\nMade by `kvt reproduce half`"),
            "{page}"
        );
        assert!(page.contains("states\n\nIt is 0.5.\n\n## What was computed\n\n| a | b |\n| --- | ---: |\n| x | 0.5 |\n"));
        assert_eq!(fs_err::read_dir(&at).unwrap().count(), 4);
        // Known before anything is computed.
        fs_err::remove_file(&paths[1]).unwrap();
        fs_err::create_dir(&paths[1]).unwrap();
        let heard = Heard::default();
        assert!(reproduce(&Half(false), &order, &heard).is_err());
        assert!(heard.steps().is_empty());
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
            "there is nothing called `scram-fig9` to reproduce: the names are `table1`, "
        ));
    }
}
