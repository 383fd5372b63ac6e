//! The conditions behind the numbers of a table: images, epochs, precision, seeds, machine and time.

use super::known::known_lines;
use super::table::duration;
use super::{Cell, Found};
use kvt_data::escape::markdown;

/// Images, epochs, precision and seeds of all finished cells, as a Markdown list that groups rows with the same conditions, then the
/// machines and how long they trained, and which cells were not trained now. Empty if nothing is finished.
#[must_use]
pub fn conditions(cells: &[Cell], found: &[Found]) -> String {
    // In order of first appearance: the conditions of a row, and the rows that have them.
    let mut rows: Vec<(&str, Vec<String>, Vec<u64>)> = Vec::new();
    for (cell, found) in cells.iter().zip(found) {
        if !found.is_finished() {
            continue;
        }
        let count = |images: Option<u64>| images.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let conditions = format!(
            "{} training images per epoch, {} validation images, {}, {}",
            count(found.images),
            count(found.eval_images),
            cell.plan.length(),
            cell.plan.train.precision.name(),
        );
        match rows.iter_mut().find(|(name, ..)| *name == cell.name) {
            Some((_, all, seeds)) => {
                if !all.contains(&conditions) {
                    all.push(conditions);
                }
                seeds.push(cell.plan.seed);
            }
            None => rows.push((cell.name.as_str(), vec![conditions], vec![cell.plan.seed])),
        }
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (name, conditions, seeds) in rows {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
        let conditions = format!("{}, {noun} {}", conditions.join("; "), seeds.join(", "));
        match groups.iter_mut().find(|(known, _)| *known == conditions) {
            Some((_, names)) => names.push(markdown(name)),
            None => groups.push((conditions, vec![markdown(name)])),
        }
    }
    let lines = groups
        .iter()
        .map(|(conditions, names)| format!("- {conditions}: {}\n", names.join(", ")));
    let known = known_lines(cells, found).into_iter();
    let known = known.map(|line| format!("- {line}\n"));
    lines.chain(machines(found)).chain(known).collect()
}

/// A line for each machine, commit and day, with the seconds of training.
fn machines(found: &[Found]) -> Vec<String> {
    let mut machines: Vec<(String, f64)> = Vec::new();
    for found in found.iter().filter(|found| found.is_finished()) {
        let Some(environment) = &found.environment else {
            continue;
        };
        let words = environment.in_words();
        match machines.iter_mut().find(|(known, _)| *known == words) {
            Some((_, seconds)) => *seconds += found.seconds,
            None => machines.push((words, found.seconds)),
        }
    }
    let line = |(words, seconds): &(String, f64)| {
        format!("- training took {}: {words}\n", duration(*seconds))
    };
    machines.iter().map(line).collect()
}
