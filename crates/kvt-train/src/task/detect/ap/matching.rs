//! Which detection finds which object.

use super::overlap::Item;
use super::{THRESHOLDS, linspace};

/// What became of the detections of a class, for objects of some area.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// How many objects count: no crowds, none of another area.
    pub(super) objects: usize,
    /// Image by image, the best detections first.
    pub(super) outcomes: Vec<Outcome>,
}

/// What became of a detection. Sets of thresholds have a bit for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Its place among those of its image.
    pub(super) place: usize,
    pub(super) score: f64,
    /// Thresholds at which it finds an object.
    pub(super) matched: u16,
    /// Thresholds at which it counts neither as right nor as wrong.
    pub(super) ignored: u16,
}

/// An object of an image.
struct Object {
    /// Its place among the image's.
    place: usize,
    is_crowd: bool,
    is_ignored: bool,
    /// Thresholds at which it is found.
    taken: u16,
}

impl Matches {
    /// Adds an image: its objects, its detections, the best first, and their overlaps `[found, truth]`, for objects of an `area`
    /// between the two.
    pub(super) fn add(
        &mut self,
        truths: &[Item<'_>],
        found: &[Item<'_>],
        overlaps: &[f64],
        area: (f64, f64),
    ) {
        let is_outside = |item: &Item<'_>| item.area < area.0 || item.area > area.1;
        let objects = truths.iter().enumerate().map(|(place, truth)| Object {
            place,
            is_crowd: truth.is_crowd,
            is_ignored: truth.is_crowd || is_outside(truth),
            taken: 0,
        });
        let mut objects: Vec<_> = objects.collect();
        // Objects that count are asked first.
        objects.sort_by_key(|object| object.is_ignored);
        self.objects += objects.iter().filter(|one| !one.is_ignored).count();
        for (place, one) in found.iter().enumerate() {
            let row = overlaps.get(place * truths.len()..).unwrap_or_default();
            let mut outcome = Outcome {
                place,
                score: one.score,
                matched: 0,
                ignored: 0,
            };
            for (number, threshold) in linspace(0.5, 0.95, THRESHOLDS).enumerate() {
                let bit = 1 << number;
                let is_ignored = if let Some(object) = best(&mut objects, row, threshold, bit) {
                    object.taken |= bit;
                    outcome.matched |= bit;
                    object.is_ignored
                } else {
                    is_outside(one)
                };
                outcome.ignored |= if is_ignored { bit } else { 0 };
            }
            self.outcomes.push(outcome);
        }
    }
}

/// The object that a detection finds at a threshold, given its overlap with each.
fn best<'a>(
    objects: &'a mut [Object],
    row: &[f64],
    threshold: f64,
    bit: u16,
) -> Option<&'a mut Object> {
    let mut least = threshold.min(1.0 - 1e-10);
    let mut held: Option<&mut Object> = None;
    for object in objects {
        // Only a crowd may be found more than once.
        if object.taken & bit != 0 && !object.is_crowd {
            continue;
        }
        // Objects that do not count are for detections without another one.
        if object.is_ignored && held.as_ref().is_some_and(|held| !held.is_ignored) {
            break;
        }
        let overlap = row.get(object.place).copied().unwrap_or(0.0);
        if overlap >= least {
            least = overlap;
            held = Some(object);
        }
    }
    held
}
