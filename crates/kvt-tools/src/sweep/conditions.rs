//! The conditions behind the numbers of a table: images, epochs, precision, seeds, machine and time.

use super::known::known_lines;
use super::table::duration;
use super::{Cell, Found};
use crate::groups::{grouped, unique};
use kvt_data::escape::markdown;

/// Images, epochs, precision and seeds of all finished cells, as a Markdown list that groups rows with the same conditions, then the
/// machines and how long they trained, and which cells were not trained now. Empty if nothing is finished.
#[must_use]
pub fn conditions(cells: &[Cell], found: &[Found]) -> String {
    let all = cells.iter().zip(found);
    let finished = all.filter(|(_, found)| found.is_finished());
    let rows = grouped(finished.map(|(cell, found)| {
        let count = |images: Option<u64>| images.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let conditions = format!(
            "{} training images per epoch, {} validation images, {}, {}",
            count(found.images),
            count(found.eval_images),
            cell.plan.length(),
            cell.plan.train.precision.name(),
        );
        (cell.name.as_str(), (conditions, cell.plan.seed.to_string()))
    }));
    let groups = grouped(rows.into_iter().map(|(name, cells)| {
        let (conditions, seeds): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
        let conditions = unique(conditions).join("; ");
        let conditions = format!("{conditions}, {noun} {}", seeds.join(", "));
        (conditions, markdown(name))
    }));
    let lines = groups
        .iter()
        .map(|(conditions, names)| format!("- {conditions}: {}\n", names.join(", ")));
    let known = known_lines(cells, found).into_iter();
    let known = known.map(|line| format!("- {line}\n"));
    lines.chain(machines(found)).chain(known).collect()
}

/// A line for each machine, commit and day, with the seconds of training.
fn machines(found: &[Found]) -> Vec<String> {
    let finished = found.iter().filter(|found| found.is_finished());
    let machines = grouped(finished.filter_map(|found| {
        let environment = found.environment.as_ref()?;
        Some((environment.in_words(), found.seconds))
    }));
    let line = |(words, seconds): &(String, Vec<f64>)| {
        let seconds: f64 = seconds.iter().sum();
        format!("- training took {}: {words}\n", duration(seconds))
    };
    machines.iter().map(line).collect()
}
