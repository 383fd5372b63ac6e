//! How a run classifies images: the numbers of `kvt eval`, the confusion matrix, the most confused pairs, and every class.

use super::super::interval_of;
use super::judged::{Judged, per_class};
use super::markup::Markup;
use crate::paint::name_of;
use crate::trained::{class_rows, confused_rows};
use kvt_train::judge::Judgement;
use kvt_train::plot::with_unit;
use kvt_train::run::Metric;
use kvt_train::table::or_empty;
use kvt_train::task::Evaluation;

/// Up to this many classes the confusion matrix is a table with numbers; with more it is a picture.
const NUMBERED: usize = 20;
/// Shades of the matrix.
const SHADES: f64 = 10.0;

/// How a run classifies: accuracy and loss, and its errors.
pub(super) type Classified = Judged<(Evaluation, Judgement)>;

/// The results of a run.
pub(super) fn write(page: &mut Markup, judged: &Classified) {
    numbers(page, judged);
    page.within("div", &[("class", "beside")], |page| {
        page.within("div", &[], |page| matrix(page, judged));
        page.within("div", &[], |page| pairs(page, judged));
    });
    by_class(page, judged);
}

fn numbers(page: &mut Markup, judged: &Classified) {
    let (evaluation, judgement) = &judged.found;
    // With at most five classes, top-5 is always 100 %.
    let top5 = (judged.classes.len() > 5).then(|| evaluation.top5_percent());
    let top5 = top5.map(|top5| format!(", top-5 {}", with_unit(Metric::TOP5, top5)));
    let calibration = judgement.calibration();
    let text = format!(
        "top-1 {}{}{}, loss {:.4} {}. Mean accuracy of the classes {:.2} %, mean F1 {:.2} %; calibration error \
         (ECE) {:.2} % with a mean confidence of {:.2} %.",
        with_unit(Metric::TOP1, evaluation.top1_percent()),
        interval_of(evaluation.top1_percent(), evaluation.images),
        or_empty(top5),
        evaluation.loss,
        judged.on(evaluation.images),
        100.0 * judgement.balanced_accuracy(),
        evaluation.f1_percent,
        100.0 * calibration.error(),
        100.0 * calibration.confidence(),
    );
    page.sentence("p", &[], &text);
}

/// How dark a share is: by its square root, so that 1 % is a tenth as dark as 100 %; 0 for nothing.
fn shade(share: f64) -> usize {
    (SHADES * share.clamp(0.0, 1.0).sqrt()).ceil() as usize
}

/// The CSS class of a cell of the matrix.
fn cell_class(row: usize, column: usize, share: f64) -> String {
    let kind = if row == column { "right" } else { "wrong" };
    match shade(share) {
        0 => String::new(),
        shade => format!("{kind} q{shade}"),
    }
}

fn matrix(page: &mut Markup, judged: &Classified) {
    let rows = judged.found.1.by_class();
    let classes = judged.classes.len();
    // The fraction of a class's images.
    let share = |row: usize, images: u64| {
        let all = rows.get(row).map_or(0, |row| row.images);
        images as f64 / all.max(1) as f64
    };
    if classes > NUMBERED {
        picture(page, judged, share);
        let text = "Confusion matrix: rows are true classes, columns predicted ones, both in label order; the stronger the colour, the \
                    larger its share of the row.";
        page.note(text);
        return;
    }
    let name = |class: usize| name_of(&judged.classes, class);
    let names = judged.classes.iter().map(String::as_str);
    let header = std::iter::once("true \\ predicted").chain(names);
    page.table("matrix", header, |page| {
        for row in 0..classes {
            page.within("tr", &[], |page| {
                page.element("th", &[("scope", "row")], &name(row));
                for column in 0..classes {
                    let images = judged.found.1.count(row, column);
                    let class = cell_class(row, column, share(row, images));
                    let [label, predicted] = [row, column].map(name);
                    let words = format!("{images} of {label} taken for {predicted}");
                    let count = or_empty((images > 0).then_some(images));
                    let attributes = [("class", &*class), ("title", &*words)];
                    page.element("td", &attributes, &count);
                }
            });
        }
    });
    page.note("Confusion matrix, in images: rows are true classes, columns predicted ones.");
}

/// The matrix of many classes: one path per shade.
fn picture(page: &mut Markup, judged: &Classified, share: impl Fn(usize, u64) -> f64) {
    let classes = judged.classes.len();
    let mut paths = std::collections::BTreeMap::<String, String>::new();
    for cell in judged.found.1.cells() {
        let (row, column) = (cell.label, cell.predicted);
        let class = cell_class(row, column, share(row, cell.images));
        if !class.is_empty() {
            let path = paths.entry(class).or_default();
            *path += &format!("M{column} {row}h1v1h-1z");
        }
    }
    let view = format!("0 0 {classes} {classes}");
    let attributes = [
        ("class", "cells"),
        ("viewBox", &*view),
        ("role", "img"),
        ("aria-label", "confusion matrix"),
        ("shape-rendering", "crispEdges"),
    ];
    page.within("svg", &attributes, |page| {
        for (class, path) in &paths {
            page.void("path", &[("class", &**class), ("d", &**path)]);
        }
    });
}

fn pairs(page: &mut Markup, judged: &Classified) {
    let pairs = confused_rows(&judged.found.1, &judged.classes);
    if pairs.is_empty() {
        page.element("p", &[], "No image was taken for another class.");
        return;
    }
    page.numbers(["confused most", "taken for", "images"], pairs);
}

fn by_class(page: &mut Markup, judged: &Classified) {
    let header = ["class", "images", "accuracy", "precision", "F1"];
    per_class(page, header, class_rows(&judged.found.1, &judged.classes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_of_shares() {
        assert_eq!([0.0, 1e-9, 0.01, 0.25, 1.0].map(shade), [0, 1, 1, 5, 10]);
        assert_eq!(cell_class(1, 1, 0.25), "right q5");
        assert_eq!(cell_class(1, 2, 0.01), "wrong q1");
        assert_eq!(cell_class(1, 2, 0.0), "");
    }
}
