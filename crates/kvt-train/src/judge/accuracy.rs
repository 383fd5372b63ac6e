//! Top-1 and top-5 accuracy, counted image by image by `task/evaluate.rs`, and batch by batch by the linear evaluation.

/// Number of images of a batch that were classified correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correct {
    /// The label scores highest.
    pub top1: u64,
    /// The label is among the five highest scores (or all, with fewer classes).
    pub top5: u64,
}

impl Correct {
    /// Counts an image by its best five classes.
    pub(crate) fn count(&mut self, best: &[u32], label: u32) {
        self.top1 += u64::from(best.first() == Some(&label));
        self.top5 += u64::from(best.contains(&label));
    }
}

/// Counts the correct rows of `logits` `[images, classes]`. Of equal logits, the lower class ranks first, so that a
/// constant output counts as one guess and not as all of them. A row with NaN is never correct, and neither is a class that must not
/// be chosen.
pub fn correct(logits: &[f32], labels: &[u32], classes: usize) -> Correct {
    let mut correct = Correct::default();
    for (row, label) in logits.chunks_exact(classes).zip(labels) {
        correct.count(&ranked(row), *label);
    }
    correct
}

/// The best five classes of a row of logits that can be chosen, best first, on a tie the lower class first. A row with a NaN has
/// none, as in [`correct`].
pub(crate) fn ranked(row: &[f32]) -> Vec<u32> {
    if row.iter().any(|logit| logit.is_nan()) {
        return Vec::new();
    }
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(6);
    for (class, &logit) in (0..).zip(row) {
        let at = best.partition_point(|(_, other)| *other >= logit);
        if at < 5 && logit > f32::NEG_INFINITY {
            best.insert(at, (class, logit));
            best.truncate(5);
        }
    }
    best.into_iter().map(|(class, _)| class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let row = [0.1, 0.9, 0.3, 0.2, 0.8, 0.7, -1.0];
        for (label, top1, top5) in [(1, 1, 1), (4, 0, 1), (3, 0, 1), (0, 0, 0), (6, 0, 0)] {
            assert_eq!(
                correct(&row, &[label], 7),
                Correct { top1, top5 },
                "{label}"
            );
        }
        let both = [row, row].concat();
        assert_eq!(correct(&both, &[1, 4], 7), Correct { top1: 1, top5: 2 });
    }

    #[test]
    fn constant_and_nan_outputs_earn_nothing_extra() {
        let constant = [0.5; 70];
        let labels: Vec<u32> = (0..7).collect();
        // One row per label: chance, not 100 %.
        assert_eq!(
            correct(&constant[..49], &labels, 7),
            Correct { top1: 1, top5: 5 }
        );
        assert_eq!(correct(&[f32::NAN; 7], &[0], 7), Correct::default());
        assert_eq!(correct(&[1.0, f32::NAN], &[0], 2), Correct::default());
    }

    #[test]
    fn fewer_than_five_classes() {
        assert_eq!(
            correct(&[3.0, 2.0, 1.0], &[2], 3),
            Correct { top1: 0, top5: 1 }
        );
    }
}
