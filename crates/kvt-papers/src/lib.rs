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
mod planned;
mod runs;
mod scram;
#[cfg(test)]
mod tests;
mod verdict;

use std::io::Write;
use std::path::PathBuf;

pub use self::demo::{Demo, demo};
pub use self::error::ReproduceError;
use self::error::quoted;
pub use self::item::Item;
use self::item::{Make, Outcome};
pub use self::order::{Order, Scale, Version};
pub use self::planned::planned;
use self::runs::Runs;
use kvt_data::fs::{check_writable, remove_leftovers, write_together};
use kvt_data::text::shell;
use kvt_tools::sweep::{Found, Watch, cells_csv};
use kvt_train::table::Table;

/// All items, in the order of their papers.
pub static ITEMS: [Item; 17] = [
    kvt::table1::ITEM,
    kvt::table2::ITEM,
    kvt::table3::ITEM,
    kvt::table4::ITEM,
    kvt::speed::ITEM,
    kvt::fig1::ITEM,
    kvt::fig2::ITEM,
    kvt::fig3::ITEM,
    kvt::fig4::ITEM,
    kvt::fig5::ITEM,
    kvt::lemmas::ITEM,
    kvt::small_k::ITEM,
    scram::fig2::ITEM,
    scram::fig3::ITEM,
    scram::fig4::ITEM,
    scram::recall::ITEM,
    scram::estimators::ITEM,
];

/// Finds an item by its name.
///
/// # Errors
/// [`ReproduceError::Unknown`].
pub fn find(name: &str) -> Result<&'static Item, ReproduceError> {
    let found = ITEMS.iter().find(|item| item.name == name);
    found.ok_or_else(|| ReproduceError::Unknown(name.to_owned()))
}

/// Refuses a scale or a version that an item does not have, options that have no effect on it, and data that does not exist.
///
/// # Errors
/// [`ReproduceError::Refused`], [`ReproduceError::NoData`].
pub fn check(
    item: &Item,
    scale: Option<Scale>,
    version: Option<Version>,
    order: &Order,
) -> Result<(), ReproduceError> {
    if let Some(reason) = refusal(item, scale, version, order) {
        let name = item.name;
        return Err(ReproduceError::Refused { name, reason });
    }
    match order.data.as_ref().filter(|path| !path.is_dir()) {
        Some(path) => Err(ReproduceError::NoData(path.clone())),
        None => Ok(()),
    }
}

/// Why an item cannot be computed as it was ordered.
fn refusal(
    item: &Item,
    scale: Option<Scale>,
    version: Option<Version>,
    order: &Order,
) -> Option<String> {
    let (known, parts) = (item.scales, item.parts);
    let scales = quoted(known.iter().map(|scale| scale.name()));
    match scale {
        Some(_) if known.is_empty() => {
            let without = "takes neither images nor training: leave `--scale` and `--data` out";
            return Some(without.to_owned());
        }
        Some(given) if !known.contains(&given) => {
            return Some(format!(
                "has no runs at the scale `{given}`; `--scale` can be {scales}"
            ));
        }
        // Runs take hours, so they need an explicit scale.
        None if !known.is_empty() => {
            return Some(format!(
                "trains models for hours or days, so how much must be chosen: `--scale` can be {scales} (`kvt reproduce --help` \
                 explains them)"
            ));
        }
        _ => {}
    }
    let options = without_meaning(item, order);
    if !options.is_empty() {
        let reason = format!("is not made of training runs and does not take {options}");
        return Some(reason);
    }
    let parts_are = quoted(parts.iter().copied());
    // Where there is one sweep, its rows are the parts, which `planned` knows.
    if let Some(given) = &order.only
        && !parts.is_empty()
        && !parts.contains(&given.as_str())
    {
        return Some(no_part(given, &parts_are));
    }
    if !order.known.is_empty() && !item.takes_known {
        let reason = "shows more of its runs than the numbers of a table: it needs the runs themselves, without `--known`";
        return Some(reason.to_owned());
    }
    // Generated images are of one kind for all parts.
    let has_own_data = parts.len() > 1 && scale == Some(Scale::Paper);
    if has_own_data && order.data.is_some() && order.only.is_none() {
        return Some(format!(
            "has parts that train on different data sets: `--only` names the one that `--data` is for, {parts_are}"
        ));
    }
    let given = version.filter(|version| !item.versions.contains(version))?;
    Some(match item.versions {
        [] => "is the same in every version of its paper: leave `--version` out".to_owned(),
        known => format!(
            "is not in version `{}` of the paper, only in {}: what differs is in `docs/reproduction.md`",
            given.name(),
            quoted(known.iter().map(|version| version.name()))
        ),
    })
}

/// Why a part cannot be trained alone, with those that can.
fn no_part(given: &str, others: &str) -> String {
    format!("has no part `{given}` to train alone: `--only` can be {others}")
}

/// The given options that have no effect on an item, for a message.
fn without_meaning(item: &Item, order: &Order) -> String {
    if item.takes_runs() {
        return String::new();
    }
    let is_set = !order.overrides.is_empty() && !item.takes_overrides;
    let given = [
        ("`--data`", order.data.is_some()),
        ("`--set` or `--device`", is_set),
        ("`--seeds`", order.seeds.is_some()),
        ("`--devices`", !order.devices.is_empty()),
        ("`--runs`", order.runs.is_some()),
        ("`--as-is`", order.as_is),
        ("`--only`", order.only.is_some()),
        ("`--known`", !order.known.is_empty()),
    ];
    let names = given.iter().filter(|(_, is_given)| *is_given);
    names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
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
    item: &Item,
    order: &Order,
    watch: &dyn Watch,
) -> Result<Reproduced, ReproduceError> {
    let folder = &order.out;
    fs_err::create_dir_all(folder)?;
    remove_leftovers(folder);
    let named = |extension| folder.join(format!("{}.{extension}", item.name));
    for extension in ["csv", "svg", "md"] {
        check_writable(&named(extension))?;
    }
    let (outcome, failures) = match item.make {
        Make::Alone(compute) => (compute(order, watch)?, Vec::new()),
        Make::OfRuns(compute) => {
            let runs = Runs::of(item, order, watch)?;
            let mut outcome = compute(&runs, order, watch)?;
            if !item.metrics.is_empty() {
                let csv = cells_csv(&runs.sweep.cells, &runs.found, item.metrics);
                let name = format!("{}-runs.csv", item.name);
                outcome.files.push((name, csv.into_bytes()));
            }
            if !runs.found.iter().any(Found::is_finished) {
                outcome.svg.clear();
                let name = item.name;
                watch.say(&format!("no run of `{name}` is finished: {NO_FIGURE}"));
            }
            (outcome, runs.failures)
        }
    };
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
    Ok(Reproduced { paths, failures })
}

/// In place of a figure of nothing.
const NO_FIGURE: &str = "there is no figure yet";

fn page(item: &Item, order: &Order, outcome: &Outcome) -> String {
    let (name, title) = (item.name, item.title);
    let mut command = format!("kvt reproduce {name}");
    if item.takes_runs() {
        if order.data.is_some() {
            command += " --data DATA";
        }
        command += &format!(" --scale {}", order.scale);
        if let Some(seeds) = order.seeds {
            command += &format!(" --seeds {seeds}");
        }
    }
    if let Some(part) = &order.only {
        command += &format!(" --only {part}");
    }
    for table in &order.known {
        command += &format!(" --known {}", shell(&table.display().to_string()));
    }
    if item.versions.len() > 1 {
        command += &format!(" --version {}", order.version.name());
    }
    for text in &order.overrides {
        command += &format!(" --set {}", shell(text));
    }
    let figure = if outcome.svg.is_empty() {
        format!("No run is finished: {NO_FIGURE}.")
    } else {
        format!("![{title}]({name}.svg)")
    };
    let verdict = match outcome.verdict.trim() {
        "" => String::new(),
        says => format!("{says}\n\n"),
    };
    format!(
        "# {title}\n\n{verdict}Made by `{command}`; all numbers are in [{name}.csv]({name}.csv).\n\n\
         ## What the paper states\n\n{}\n\n## What was computed\n\n{}\n\n{figure}\n",
        item.stated.trim(),
        outcome.found.trim(),
    )
}

/// A Markdown table; all columns but the first are right-aligned.
fn table(
    header: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item: AsRef<[String]>>,
) -> String {
    Table::new(header, rows).markdown(&[0])
}
