//! The tables of a report that come from logs: the runs, their comparison, every epoch, and notes.

use super::super::{Comparison, Curve};
use super::Report;
use super::chart::{color_class, short_number};
use super::markup::Markup;
use super::record::Record;
use kvt_train::plot::{duration, grouped, human, with_unit};
use kvt_train::run::{EvalRecord, Topic};

/// Maximum number of notes shown per run.
const NOTES: usize = 100;

/// The numbers of the runs: tiles for one, a table for several.
pub(super) fn runs(page: &mut Markup, report: &Report) {
    if let [record] = &*report.records {
        tiles(page, report, record);
        return;
    }
    let title = report.metric.title;
    let header = format!(
        "run,best {title},of epoch,last {title},epochs,training time,images/s,parameters,MACs,keys per query"
    );
    page.table("numbers", header.split(','), |page| {
        for (number, record) in report.records.iter().enumerate() {
            line(page, report, number, record);
        }
    });
}

fn line(page: &mut Markup, report: &Report, number: usize, record: &Record) {
    let found = |found: Option<(u32, f64)>| {
        found.map_or_else(dash, |(_, value)| with_unit(report.metric, value))
    };
    let best = record.best(report.metric);
    let cells = [
        found(best),
        best.map_or_else(dash, |(epoch, _)| epoch.to_string()),
        found(record.last(report.metric)),
        match record.plan.epochs() {
            Some(all) => format!("{} of {all}", record.epochs()),
            None => record.epochs().to_string(),
        },
        duration(record.seconds()),
        speed(record),
        model(record, |facts| grouped(facts.parameters)),
        model(record, |facts| human(facts.macs as f64)),
        model(record, |facts| facts.keys.clone()),
    ];
    page.within("tr", &[], |page| {
        page.within("th", &[("scope", "row")], |page| {
            let class = format!("swatch {}", color_class(report.label_number(number)));
            page.element("span", &[("class", &*class)], "");
            page.text(&record.name);
        });
        for cell in &cells {
            page.element("td", &[], cell);
        }
    });
}

/// The numbers of one run.
fn tiles(page: &mut Markup, report: &Report, record: &Record) {
    let metric = report.metric;
    let found = |found: Option<(u32, f64)>| match found {
        Some((epoch, value)) => (with_unit(metric, value), format!("after epoch {epoch}")),
        None => (dash(), "not evaluated".to_owned()),
    };
    let (best, best_epoch) = found(record.best(metric));
    let (last, last_epoch) = found(record.last(metric));
    let epochs = record.epochs_of_all();
    let macs = model(record, |facts| format!("{} MACs", human(facts.macs as f64)));
    let keys = model(record, |facts| facts.keys.clone());
    let parameters = model(record, |facts| grouped(facts.parameters));
    page.within("div", &[("class", "tiles")], |page| {
        tile(page, &format!("best {}", metric.title), &best, &best_epoch);
        tile(page, &format!("last {}", metric.title), &last, &last_epoch);
        tile(page, "training time", &duration(record.seconds()), &epochs);
        tile(page, "images per second", &speed(record), "in training");
        tile(page, "parameters", &parameters, &macs);
        let stages = if keys.contains(',') {
            "stage by stage"
        } else {
            "in every block"
        };
        tile(page, "keys per query", &keys, stages);
    });
}

/// A number with its name above and more about it below; nothing without the number.
fn tile(page: &mut Markup, name: &str, value: &str, more: &str) {
    if value.is_empty() {
        return;
    }
    page.within("div", &[("class", "tile")], |page| {
        page.element("span", &[("class", "name")], name);
        page.element("strong", &[], value);
        page.element("span", &[("class", "more")], more);
    });
}

fn dash() -> String {
    "–".to_owned()
}

fn speed(record: &Record) -> String {
    let speed = record.images_per_second();
    speed.map_or_else(dash, |speed| format!("{speed:.0}"))
}

fn model(record: &Record, of: impl Fn(&super::record::ModelFacts) -> String) -> String {
    record.model.as_ref().map_or_else(dash, of)
}

/// The table of `kvt compare`, with the text below it.
pub(super) fn comparison(page: &mut Markup, report: &Report, curves: &[Curve]) {
    let comparison = Comparison::new(curves, report.metric);
    let lines = comparison.lines(str::to_owned);
    let Some((header, rows)) = lines.split_first() else {
        return;
    };
    let header = header.iter().map(String::as_str);
    page.numbers(header, rows.iter().cloned());
    for sentence in comparison.caption(str::to_owned).lines() {
        page.note(sentence);
    }
}

/// Each epoch of a run with the numbers of `epochs.csv`, which has more digits, and the notes of the log.
pub(super) fn epochs(page: &mut Markup, record: &Record) {
    page.folded(&format!("All epochs of {}", record.name), |page| {
        let [own, ema] = record.measured();
        let mut header = ["epoch", "train_loss", "lr"].map(str::to_owned).to_vec();
        for (split, names) in [(EvalRecord::VAL, &own), (EvalRecord::VAL_EMA, &ema)] {
            header.extend(names.iter().map(|name| format!("{split}_{name}")));
        }
        header.extend(["seconds", "images_per_second"].map(str::to_owned));
        let rows = record.rows.iter().map(|row| {
            let train = &row.train;
            let mut cells = vec![(train.epoch + 1).to_string()];
            cells.extend([train.train_loss, train.lr].map(short_number));
            for (eval, names) in [(&row.val, &own), (&row.val_ema, &ema)] {
                cells.extend(names.iter().map(|name| {
                    let value = eval.as_ref().and_then(|eval| eval.metrics.get(name));
                    value.map_or_else(dash, short_number)
                }));
            }
            cells.extend([train.seconds, train.images_per_second].map(short_number));
            cells
        });
        page.numbers(header.iter().map(String::as_str), rows);
    });
    if !record.notes.is_empty() {
        page.folded(&format!("Notes of {}", record.name), |page| {
            notes(page, record);
        });
    }
}

/// The first notes of the log, and how many more there are.
fn notes(page: &mut Markup, record: &Record) {
    page.within("ul", &[], |page| {
        for note in record.notes.iter().take(NOTES) {
            let kind = match note.topic {
                Topic::Warning => "warning: ",
                Topic::Skipped => "skipped ",
                Topic::Start | Topic::Resume | Topic::Stop | Topic::Patience | Topic::Scale => "",
            };
            let prefix = note.path.as_ref().map(|path| format!("`{path}`: "));
            let path = prefix.unwrap_or_default();
            let text = format!("step {}: {kind}{path}{}", note.step, note.message);
            page.sentence("li", &[], &text);
        }
    });
    let more = record.notes.len().saturating_sub(NOTES);
    if more > 0 {
        let text = format!("and {more} more in `log.jsonl`");
        page.note(&text);
    }
}
