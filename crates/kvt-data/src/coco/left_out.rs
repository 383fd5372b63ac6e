//! Which annotations are not trained on.

use super::Annotation;

/// Why an annotation is not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It is several objects.
    Crowd,
    /// The file says so.
    Ignored,
    /// Its box has no pixel in common with the image.
    Outside,
    /// Its area is 0, or a side of its box is shorter than a pixel.
    Small,
}

impl LeftOut {
    /// The reason in words that follow a number.
    pub fn words(self) -> &'static str {
        match self {
            Self::Crowd => "crowds",
            Self::Ignored => "marked `ignore`",
            Self::Outside => "outside of their image",
            Self::Small => "without area, or with a side below 1 px",
        }
    }
}

impl Annotation {
    /// Why it is not trained on in an image of `(height, width)`; `None` if it is. The rules are mmdetection's; a box without pixels is no box outside.
    pub fn left_out(&self, (height, width): (u32, u32)) -> Option<LeftOut> {
        let [x, y, w, h] = self.bbox;
        let inside = |start: f64, length: f64, side: u32| {
            (start + length).min(f64::from(side)) - start.max(0.0)
        };
        // A comparison with NaN is false: such a box is outside.
        if self.is_ignored {
            Some(LeftOut::Ignored)
        } else if self.area <= 0.0 || w < 1.0 || h < 1.0 {
            Some(LeftOut::Small)
        } else if !(inside(x, w, width) > 0.0 && inside(y, h, height) > 0.0) {
            Some(LeftOut::Outside)
        } else {
            self.is_crowd.then_some(LeftOut::Crowd)
        }
    }
}
