//! How much two masks overlap, by their runs.

use super::rle::Rle;

impl Rle {
    /// Intersection over union of two masks; 0 if they do not meet, or if their images differ in size.
    ///
    /// `is_crowd` says that the `other` is a region of many objects: then it is the share of this mask inside of it.
    pub fn iou(&self, other: &Self, is_crowd: bool) -> f64 {
        let both = self.intersection(other);
        if both == 0 || self.size() != other.size() {
            return 0.0;
        }
        let (own, others) = (u64::from(self.area()), u64::from(other.area()));
        let whole = if is_crowd { own } else { own + others - both };
        both as f64 / whole as f64
    }

    /// Pixels that are inside of both masks.
    fn intersection(&self, other: &Self) -> u64 {
        let (mut ours, mut theirs) = (self.spans().peekable(), other.spans().peekable());
        let mut both = 0;
        while let (Some(&(start, count)), Some(&(other_start, other_count))) =
            (ours.peek(), theirs.peek())
        {
            let (end, other_end) = (start + count, other_start + other_count);
            let (first, last) = (start.max(other_start), end.min(other_end));
            both += u64::from(last.saturating_sub(first));
            if end <= other_end {
                ours.next();
            } else {
                theirs.next();
            }
        }
        both
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A rectangle, and the same without three columns and a pixel: 119 of 150.
    #[test]
    fn the_case_worked_by_hand() {
        let rectangle = |left| {
            move |row: u32, column: u32| (4..14).contains(&row) && (left..20).contains(&column)
        };
        let whole = Rle::encode((20, 30), rectangle(5));
        let part = |row, column| rectangle(8)(row, column) && (row, column) != (4, 8);
        let part = Rle::encode((20, 30), part);
        assert_eq!(part.iou(&whole, false), 119.0 / 150.0);
        assert_eq!(part.iou(&whole, true), 1.0);
        assert_eq!(whole.iou(&part, true), 119.0 / 150.0);
        let other = Rle::encode((30, 20), |_, _| true);
        assert_eq!(whole.iou(&other, false), 0.0);
        let empty = Rle::encode((20, 30), |_, _| false);
        assert_eq!(empty.iou(&empty, false), 0.0);
        assert_eq!(whole.iou(&empty, true), 0.0);
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_pixels(
            (height, width) in (1_u32..9, 1_u32..9),
            ours in prop::collection::vec(any::<bool>(), 64),
            theirs in prop::collection::vec(any::<bool>(), 64),
            is_crowd in any::<bool>(),
        ) {
            let mask = |bits: &[bool]| {
                Rle::encode((height, width), |row, column| bits[(8 * row + column) as usize])
            };
            let (ours, theirs) = (mask(&ours), mask(&theirs));
            let pixels: Vec<_> = ours.decode().into_iter().zip(theirs.decode()).collect();
            let both = pixels.iter().filter(|(a, b)| *a && *b).count();
            let whole = pixels.iter().filter(|(a, b)| *a || (*b && !is_crowd)).count();
            let expected = if both == 0 { 0.0 } else { both as f64 / whole as f64 };
            prop_assert_eq!(ours.iou(&theirs, is_crowd), expected);
        }
    }
}
