//! Precision and recall over all images, and the means of classes.

use super::matching::{Matches, Outcome};
use super::{AT_75, AveragePrecision, MOST_FOUND, THRESHOLDS, linspace};

/// Recalls at which precision is read: 0, 0.01, .. 1.
const RECALLS: usize = 101;
/// How many detections of an image and class recall is given for.
const LIMITS: [usize; 3] = [1, 10, MOST_FOUND];

/// Precision and recall of a class at each threshold.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// Mean precision over the [`RECALLS`].
    precision: [f64; THRESHOLDS],
    /// Final recall, for each of [`LIMITS`].
    recall: [[f64; THRESHOLDS]; 3],
}

impl Curve {
    /// `None` if no object counts.
    pub(super) fn of(matches: Matches) -> Option<Self> {
        let (objects, mut outcomes) = (matches.objects, matches.outcomes);
        if objects == 0 {
            return None;
        }
        let recall = LIMITS.map(|limit| {
            std::array::from_fn(|number| {
                let within = outcomes.iter().filter(|outcome| outcome.place < limit);
                let right = within.filter(|outcome| is_right(outcome, number) == Some(true));
                right.count() as f64 / objects as f64
            })
        });
        // Stable: of equal scores in the order of the images.
        outcomes.sort_by(|a, b| b.score.total_cmp(&a.score));
        Some(Self {
            precision: std::array::from_fn(|number| mean_precision(&outcomes, number, objects)),
            recall,
        })
    }
}

/// Whether a detection is right at a threshold; `None` if it does not count.
fn is_right(outcome: &Outcome, threshold: usize) -> Option<bool> {
    let bit = 1 << threshold;
    (outcome.ignored & bit == 0).then_some(outcome.matched & bit != 0)
}

/// The mean over the recalls of the best precision at this recall or a higher one.
fn mean_precision(outcomes: &[Outcome], threshold: usize, objects: usize) -> f64 {
    let (mut right, mut wrong) = (0_u64, 0_u64);
    // Recall and precision where recall grows, which is where precision has its peaks.
    let mut points: Vec<(f64, f64)> = Vec::new();
    for outcome in outcomes {
        match is_right(outcome, threshold) {
            Some(true) => {
                right += 1;
                let (hits, all) = (right as f64, (right + wrong) as f64);
                points.push((hits / objects as f64, hits / (all + f64::EPSILON)));
            }
            Some(false) => wrong += 1,
            None => {}
        }
    }
    let mut highest = 0.0_f64;
    for (_, precision) in points.iter_mut().rev() {
        highest = highest.max(*precision);
        *precision = highest;
    }
    let (mut points, mut sum) = (points.into_iter().peekable(), 0.0);
    for recall in linspace(0.0, 1.0, RECALLS) {
        while points.next_if(|point| point.0 < recall).is_some() {}
        sum += points.peek().map_or(0.0, |point| point.1);
    }
    sum / RECALLS as f64
}

/// The means over classes, given the curves of each for all, small, medium and large objects.
pub(super) fn summary(classes: &[[Option<Curve>; 4]]) -> AveragePrecision {
    let [all, small, medium, large] = std::array::from_fn(|area| {
        let curves = classes.iter().map(move |areas| areas.get(area)?.as_ref());
        curves.collect::<Vec<Option<&Curve>>>()
    });
    let precision =
        |curves: &[Option<&Curve>]| mean(curves.iter().flatten().flat_map(|curve| curve.precision));
    let at = |threshold: usize| mean(all.iter().flatten().map(|curve| curve.precision[threshold]));
    let recall = |curves: &[Option<&Curve>], limit: usize| {
        let curves = curves.iter().flatten();
        mean(curves.flat_map(|curve| curve.recall[limit]))
    };
    AveragePrecision {
        ap: precision(&all),
        ap50: at(0),
        ap75: at(AT_75),
        ap_small: precision(&small),
        ap_medium: precision(&medium),
        ap_large: precision(&large),
        ar1: recall(&all, 0),
        ar10: recall(&all, 1),
        ar100: recall(&all, 2),
        ar_small: recall(&small, 2),
        ar_medium: recall(&medium, 2),
        ar_large: recall(&large, 2),
        classes: all.iter().map(|curve| precision(&[*curve])).collect(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
