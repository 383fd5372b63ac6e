//! The objects of an image, as a data set prepares them and a network learns them.

/// An object of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its box, `[x1, y1, x2, y2]` in pixels of the image as the network sees it, inside of it and with an area.
    pub corners: [f32; 4],
    /// Its class, from 0.
    pub label: usize,
    /// Its pixels in the image as the network sees it; without a mask, those of its box.
    pub mask: ObjectMask,
}

/// The pixels of an object, cut to its surroundings. All others are outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMask {
    /// Row of the first pixel in the image.
    pub top: usize,
    /// Column of the first pixel in the image.
    pub left: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
    /// Whether each pixel is inside, `[height, width]`.
    pub inside: Vec<bool>,
}

impl ObjectMask {
    /// Whether a pixel of the image is inside.
    pub fn contains(&self, row: usize, column: usize) -> bool {
        let (Some(row), Some(column)) = (row.checked_sub(self.top), column.checked_sub(self.left))
        else {
            return false;
        };
        let is_within = row < self.height && column < self.width;
        is_within && self.inside.get(row * self.width + column) == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_around_a_mask_are_outside() {
        let mask = ObjectMask {
            top: 2,
            left: 3,
            height: 2,
            width: 2,
            inside: vec![true, false, true, true],
        };
        let all = (0..8).flat_map(|row| (0..8).map(move |column| (row, column)));
        let inside: Vec<_> = all.filter(|at| mask.contains(at.0, at.1)).collect();
        assert_eq!(inside, [(2, 3), (3, 3), (3, 4)]);
        // Not the place of another pixel, nor too large for one.
        assert!(!mask.contains(usize::MAX, 3));
        assert!(!mask.contains(2, usize::MAX));
    }
}
