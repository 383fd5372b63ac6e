//! A random share of the boxes for a loss, as mmdet's `RandomSampler` without a bound on the negatives.

use kvt_ops::Key;

use super::Match;

/// The boxes that a loss sees, by their places, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The boxes that stand for objects.
    pub positive: Vec<usize>,
    /// The boxes that are background.
    pub negative: Vec<usize>,
}

/// Draws at most `count` boxes without replacement, each with the same probability within its kind: at most the share `fraction` of
/// them stands for objects, and background fills the rest. A kind of which nothing is left out draws nothing.
pub fn sample(matches: &[Match], count: usize, fraction: f64, key: Key) -> Sample {
    let places = |wanted: fn(&Match) -> bool| -> Vec<usize> {
        let places = matches.iter().enumerate();
        places
            .filter(|(_, found)| wanted(found))
            .map(|(place, _)| place)
            .collect()
    };
    let most = ((count as f64 * fraction) as usize).min(count);
    let mut positive = places(|found| matches!(found, Match::Object(_)));
    draw(&mut positive, most, key.named("positive"));
    let mut negative = places(|found| matches!(found, Match::Background));
    let rest = count - positive.len();
    draw(&mut negative, rest, key.named("negative"));
    Sample { positive, negative }
}

/// Leaves `count` of the places.
///
/// Each place has its own random number, and those with the smallest ones stay. So no draw depends on another, nor on
/// the order of the places.
fn draw(places: &mut Vec<usize>, count: usize, key: Key) {
    if places.len() <= count {
        return;
    }
    let number = |place: usize| (key.child(place as u64).value(), place);
    let mut numbered: Vec<(u64, usize)> = places.iter().map(|place| number(*place)).collect();
    if count > 0 {
        numbered.select_nth_unstable(count - 1);
    }
    places.clear();
    places.extend(numbered.iter().take(count).map(|(_, place)| *place));
    places.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::Match::{Background, Neither, Object};
    use super::*;

    fn matches(positives: usize, negatives: usize) -> Vec<Match> {
        let mut matches = vec![Neither, Neither];
        matches.extend((0..positives).map(Object));
        matches.extend(vec![Background; negatives]);
        matches
    }

    #[test]
    fn what_fits_is_taken_whole() {
        let all = |found: &[Match]| sample(found, 1000, 0.5, Key::new(1));
        let found = [Background, Object(1), Neither, Object(0), Background];
        let Sample { positive, negative } = all(&found);
        assert_eq!((positive, negative), (vec![1, 3], vec![0, 4]));
        assert_eq!(all(&[]), Sample::default());
    }

    #[test]
    fn background_fills_what_objects_leave() {
        let sizes = |positives, negatives| {
            let sample = sample(&matches(positives, negatives), 512, 0.25, Key::new(1));
            [sample.positive.len(), sample.negative.len()]
        };
        assert_eq!(sizes(300, 1000), [128, 384]);
        assert_eq!(sizes(128, 384), [128, 384]);
        assert_eq!(sizes(3, 1000), [3, 509]);
        assert_eq!(sizes(300, 10), [128, 10]);
        assert_eq!(sizes(0, 10), [0, 10]);
        let none = sample(&matches(2, 2), 0, 0.5, Key::new(1));
        assert_eq!(none, Sample::default());
    }

    #[test]
    fn a_draw_is_of_the_right_kind_sorted_and_of_its_key() {
        let found = matches(300, 1000);
        let sample = |seed| sample(&found, 256, 0.5, Key::new(seed));
        let first = sample(1);
        assert_eq!(first, sample(1));
        assert_ne!(first.positive, sample(2).positive);
        assert_ne!(first.negative, sample(2).negative);
        assert!(first.positive.is_sorted_by(|a, b| a < b));
        assert!(first.negative.is_sorted_by(|a, b| a < b));
        assert!(first.positive.iter().all(|place| (2..302).contains(place)));
        assert!(
            first
                .negative
                .iter()
                .all(|place| (302..1302).contains(place))
        );
    }

    #[test]
    fn every_box_has_the_same_probability() {
        let (found, mut times) = (matches(10, 20), [0; 32]);
        for seed in 0..5000 {
            let sample = sample(&found, 8, 0.5, Key::new(7).child(seed));
            for place in sample.positive.iter().chain(&sample.negative) {
                times[*place] += 1;
            }
        }
        // 2000 and 1000 with standard deviations of 35 and 28.
        assert_eq!(times[..2], [0, 0]);
        assert!(
            times[2..12]
                .iter()
                .all(|times| (1850..2150).contains(times)),
            "{times:?}"
        );
        assert!(
            times[12..].iter().all(|times| (880..1120).contains(times)),
            "{times:?}"
        );
    }
}
