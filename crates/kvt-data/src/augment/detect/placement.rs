//! Where the pixels of an augmented image come from, along one side.

/// One side of an image that is flipped, resized and cut: both its pixels and its coordinates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Side {
    /// The pixel of the original image that each pixel shows, without interpolation.
    from: Vec<u32>,
    /// A coordinate `c` of the original is at `scale c + shift`.
    scale: f64,
    shift: f64,
}

impl Side {
    /// The side of an original image.
    pub(super) fn whole(pixels: u32) -> Self {
        Self {
            from: (0..pixels).collect(),
            scale: 1.0,
            shift: 0.0,
        }
    }

    pub(super) fn flip(&mut self) {
        self.from.reverse();
        self.scale = -self.scale;
        self.shift = self.from.len() as f64 - self.shift;
    }

    /// To another number of pixels: each is that at `floor(i * old / new)`, as OpenCV has it for the nearest.
    pub(super) fn resize(&mut self, pixels: u32) {
        let (old, new) = (self.from.len(), pixels as usize);
        let place = |pixel: usize| self.from.get(pixel * old / new.max(1)).copied();
        self.from = (0..new).filter_map(place).collect();
        let factor = f64::from(pixels) / old.max(1) as f64;
        self.scale *= factor;
        self.shift *= factor;
    }

    /// Keeps `pixels` pixels from `start` on.
    pub(super) fn crop(&mut self, start: u32, pixels: u32) {
        let kept = self.from.iter().skip(start as usize).take(pixels as usize);
        self.from = kept.copied().collect();
        self.shift -= f64::from(start);
    }

    pub(super) fn pixels(&self) -> usize {
        self.from.len()
    }

    /// The ends of an interval of the original, in order and cut to the side.
    pub(super) fn interval(&self, [start, end]: [f64; 2]) -> [f64; 2] {
        let place = |c: f64| (self.scale * c + self.shift).clamp(0.0, self.from.len() as f64);
        let (start, end) = (place(start), place(end));
        [start.min(end), start.max(end)]
    }

    /// The first of the pixels that show pixels of the original from `start` on, before `end`, and these pixels in turn.
    pub(super) fn showing(&self, start: u32, end: u32) -> (usize, &[u32]) {
        // They follow each other: what is shown grows or shrinks along the side.
        let is_shown = |pixel: &u32| (start..end).contains(pixel);
        let Some(first) = self.from.iter().position(is_shown) else {
            return (0, &[]);
        };
        let rest = self.from.get(first..).unwrap_or_default();
        let count = rest.iter().take_while(|pixel| is_shown(pixel)).count();
        (first, rest.get(..count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten pixels, turned, to five, of which the middle three: worked by hand.
    #[test]
    fn pixels_and_coordinates_go_together() {
        let mut side = Side::whole(10);
        side.flip();
        assert_eq!(side.interval([2.0, 5.0]), [5.0, 8.0]);
        side.resize(5);
        side.crop(1, 3);
        assert_eq!(side.from, [7, 5, 3]);
        assert_eq!((side.pixels(), side.scale), (3, -0.5));
        // 2 to 5 was at 5 to 8, then at 2.5 to 4, and is at 1.5 to 3.
        assert_eq!(side.interval([2.0, 5.0]), [1.5, 3.0]);
        // Cut off at both ends.
        assert_eq!(side.interval([-3.0, 20.0]), [0.0, 3.0]);
        assert_eq!(side.interval([0.0, 1.0]), [3.0, 3.0]);
        assert_eq!(side.showing(3, 6), (1, &[5, 3][..]));
        assert_eq!(side.showing(8, 10), (0, &[][..]));
    }

    #[test]
    fn flipping_twice_is_nothing() {
        let mut side = Side::whole(7);
        side.resize(12);
        side.crop(2, 9);
        let before = side.clone();
        side.flip();
        assert_ne!(side, before);
        side.flip();
        assert_eq!(side, before);
    }

    /// The pixels of the reference: `floor(x * old / new)`.
    #[test]
    fn a_resized_side_has_the_nearest_pixels_of_opencv() {
        let mut side = Side::whole(5);
        side.resize(7);
        assert_eq!(side.from, [0, 0, 1, 2, 2, 3, 4]);
        side.resize(3);
        assert_eq!(side.from, [0, 1, 2]);
    }
}
