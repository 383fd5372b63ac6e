//! Figures and tables of papers, recomputed: `kvt reproduce`.
//!
//! Each item is a file with an [`Item`], and one line in [`ITEMS`]. It computes numbers (CSV), a figure (SVG), and a page
//! (Markdown) that compares them with the paper. An [`Order`] gives its inputs: a data set, a scale, a version of the paper. Except
//! for timings, the same program produces the same numbers.
//!
//! Also here, because it trains embedded configurations, too: [`demo`].

pub mod attribution;
mod configs;
mod demo;
mod error;
mod fit;
mod item;
mod kvt;
mod order;
mod runs;
mod scram;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::PathBuf;

pub use self::demo::{Demo, demo};
pub use self::error::ReproduceError;
pub use self::item::{About, Item, Outcome};
pub use self::order::{Order, Scale, Version};
pub use self::runs::{Runs, planned};
use kvt_data::fs::{check_writable, remove_leftovers, write_together};
use kvt_tools::sweep::State;
pub use kvt_tools::sweep::Watch;
use kvt_train::table::Table;

/// All items, in the order of their papers.
pub const ITEMS: &[&dyn Item] = &[
    &kvt::Table1,
    &kvt::Table2,
    &kvt::Table3,
    &kvt::Table4,
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
    &scram::Estimators::PAPER,
];

/// Finds an item by its name.
///
/// # Errors
/// [`ReproduceError::Unknown`].
pub fn find(name: &str) -> Result<&'static dyn Item, ReproduceError> {
    let found = ITEMS.iter().find(|item| item.about().name == name);
    found.copied().ok_or_else(|| {
        let known: Vec<String> = ITEMS
            .iter()
            .map(|item| format!("`{}`", item.about().name))
            .collect();
        ReproduceError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

/// Refuses a scale or a version that an item does not have, options that have no effect on it, and data that does not exist.
///
/// # Errors
/// [`ReproduceError::Scale`], [`ReproduceError::Options`], [`ReproduceError::Part`], [`ReproduceError::DataOfParts`],
/// [`ReproduceError::Unknowable`], [`ReproduceError::NoData`], [`ReproduceError::Version`].
pub fn check(
    item: &dyn Item,
    scale: Option<Scale>,
    version: Option<Version>,
    order: &Order,
) -> Result<(), ReproduceError> {
    let about = item.about();
    let (name, known, parts) = (about.name, about.scales, about.parts);
    let has_scale = match scale {
        Some(scale) => known.contains(&scale),
        // Runs take hours, so they need an explicit scale.
        None => known.is_empty(),
    };
    if !has_scale {
        let given = scale;
        return Err(ReproduceError::Scale { name, known, given });
    }
    let options = without_meaning(item, order);
    if !options.is_empty() {
        return Err(ReproduceError::Options { name, options });
    }
    if let Some(given) = &order.only
        && !parts.contains(&given.as_str())
    {
        let given = given.clone();
        return Err(ReproduceError::Part { name, parts, given });
    }
    if !order.known.is_empty() && about.metrics.is_empty() {
        return Err(ReproduceError::Unknowable(name));
    }
    // Generated images are of one kind for all parts.
    let has_own_data = parts.len() > 1 && scale == Some(Scale::Paper);
    if has_own_data && order.data.is_some() && order.only.is_none() {
        return Err(ReproduceError::DataOfParts { name, parts });
    }
    if let Some(path) = order.data.as_ref().filter(|path| !path.is_dir()) {
        return Err(ReproduceError::NoData(path.clone()));
    }
    match version {
        Some(version) if !about.versions.contains(&version) => Err(ReproduceError::Version {
            name,
            version,
            known: about.versions,
        }),
        _ => Ok(()),
    }
}

/// The given options that have no effect on an item, for a message.
fn without_meaning(item: &dyn Item, order: &Order) -> String {
    let takes_runs = !item.about().scales.is_empty();
    let given = [
        ("`--data`", order.data.is_some(), takes_runs),
        (
            "`--set` or `--device`",
            !order.overrides.is_empty(),
            item.takes_overrides(),
        ),
        ("`--seeds`", order.seeds.is_some(), takes_runs),
        ("`--devices`", !order.devices.is_empty(), takes_runs),
        ("`--runs`", order.runs.is_some(), takes_runs),
        ("`--as-is`", order.as_is, takes_runs),
        ("`--only`", order.only.is_some(), takes_runs),
        ("`--known`", !order.known.is_empty(), takes_runs),
    ];
    let names = given
        .iter()
        .filter(|(_, is_given, means)| *is_given && !means);
    names.map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

/// The result of [`reproduce`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduced {
    /// The files that were written.
    pub paths: Vec<PathBuf>,
    /// Runs that could not be trained, a line for each reason.
    pub failures: Vec<String>,
}

/// Computes an item and writes `<name>.csv`, `<name>.svg`, `<name>.md` and its further files into the folder of the order, which is
/// created if it is missing. Without a finished run there is no figure, which `watch` and the page say. If a file cannot be written, all old files stay, unless the process ends between the renames.
///
/// # Errors
/// If the files cannot be written, which is checked first, or the item cannot be computed.
pub fn reproduce(
    item: &dyn Item,
    order: &Order,
    watch: &dyn Watch,
) -> Result<Reproduced, ReproduceError> {
    let folder = &order.out;
    fs_err::create_dir_all(folder)?;
    remove_leftovers(folder);
    let named = |extension| folder.join(format!("{}.{extension}", item.about().name));
    for extension in ["csv", "svg", "md"] {
        check_writable(&named(extension))?;
    }
    let mut outcome = item.compute(order, watch)?;
    if !has_numbers(item, order)? {
        outcome.svg.clear();
        watch.say(&format!(
            "no run of `{}` is finished: {NO_FIGURE}",
            item.about().name
        ));
    }
    let page = page(item, order, &outcome);
    let (mut paths, mut texts) = (Vec::new(), Vec::new());
    for (extension, text) in [("csv", &outcome.csv), ("svg", &outcome.svg), ("md", &page)] {
        if extension != "svg" || !text.is_empty() {
            paths.push(named(extension));
            texts.push(text.as_bytes());
        }
    }
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

/// In place of a figure of nothing.
const NO_FIGURE: &str = "there is no figure yet";

/// Whether an item has something to draw: it is not made of runs, or one of them is finished.
fn has_numbers(item: &dyn Item, order: &Order) -> Result<bool, ReproduceError> {
    Ok(match planned(item, order)? {
        None => true,
        Some([all, _]) => all.cells.iter().any(|cell| State::of(cell).is_finished()),
    })
}

fn page(item: &dyn Item, order: &Order, outcome: &Outcome) -> String {
    let about = item.about();
    let (name, title) = (about.name, about.title);
    let mut command = format!("kvt reproduce {name}");
    if !about.scales.is_empty() {
        if order.data.is_some() {
            command += " --data DATA";
        }
        command += &format!(" --scale {}", order.scale);
    }
    if let Some(seeds) = order.seeds.filter(|_| !about.scales.is_empty()) {
        command += &format!(" --seeds {seeds}");
    }
    if let Some(part) = &order.only {
        command += &format!(" --only {part}");
    }
    for table in &order.known {
        command += &format!(" --known {}", quoted(&table.display().to_string()));
    }
    if about.versions.len() > 1 {
        command += &format!(" --version {}", order.version.name());
    }
    if item.takes_overrides() {
        for text in &order.overrides {
            command += &format!(" --set {}", quoted(text));
        }
    }
    let figure = if outcome.svg.is_empty() {
        format!("No run is finished: {NO_FIGURE}.")
    } else {
        format!("![{title}]({name}.svg)")
    };
    format!(
        "# {title}\n\nMade by `{command}`; all numbers are in [{name}.csv]({name}.csv).\n\n\
         ## What the paper states\n\n{}\n\n## What was computed\n\n{}\n\n{figure}\n",
        about.stated.trim(),
        outcome.found.trim(),
    )
}

/// A setting, quoted for a shell where necessary.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._=-/,".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A Markdown table; all columns but the first are right-aligned.
fn table(
    header: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item: AsRef<[String]>>,
) -> String {
    Table::new(header, rows).markdown(&[0])
}
