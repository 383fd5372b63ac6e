//! The ten shapes, as tests of whether a point is inside.

/// A shape with circumradius 1 around the origin. The order is that of the classes: a data set with `n` classes has the first `n` shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Figure {
    Circle,
    Square,
    Triangle,
    Star,
    Cross,
    Ring,
    Crescent,
    Diamond,
    Hexagon,
    Pentagon,
}

impl Figure {
    /// All shapes.
    pub const ALL: [Self; 10] = [
        Self::Circle,
        Self::Square,
        Self::Triangle,
        Self::Star,
        Self::Cross,
        Self::Ring,
        Self::Crescent,
        Self::Diamond,
        Self::Hexagon,
        Self::Pentagon,
    ];

    const NAMES: [&str; 10] = [
        "circle", "square", "triangle", "star", "cross", "ring", "crescent", "diamond", "hexagon",
        "pentagon",
    ];

    /// The class name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether the point is inside the shape.
    pub(super) fn contains(self, x: f32, y: f32) -> bool {
        let square = x * x + y * y;
        if square > 1.0 {
            return false;
        }
        match self {
            Self::Circle => true,
            Self::Ring => square > 0.55 * 0.55,
            Self::Crescent => (x - 0.45) * (x - 0.45) + y * y > 0.8 * 0.8,
            Self::Cross => x.abs().max(y.abs()) < 0.94 && x.abs().min(y.abs()) < 0.3,
            Self::Square => x.abs().max(y.abs()) < HALF_SQRT_2,
            Self::Diamond => x.abs() + y.abs() / 0.5 < 1.0,
            Self::Triangle => in_polygon(&TRIANGLE, x, y),
            Self::Star => in_polygon(&STAR, x, y),
            Self::Hexagon => in_polygon(&HEXAGON, x, y),
            Self::Pentagon => in_polygon(&PENTAGON, x, y),
        }
    }

    /// The corners, in order, if a polygon describes the shape. A circle is one of 32 corners.
    pub(super) fn outline(self) -> Option<Vec<(f32, f32)>> {
        let corners: &[_] = match self {
            Self::Circle => return Some(circle()),
            Self::Ring | Self::Crescent => return None,
            Self::Square => &SQUARE,
            Self::Triangle => &TRIANGLE,
            Self::Star => &STAR,
            Self::Cross => &CROSS,
            Self::Diamond => &DIAMOND,
            Self::Hexagon => &HEXAGON,
            Self::Pentagon => &PENTAGON,
        };
        Some(corners.to_vec())
    }
}

/// Corners on the unit circle: a square's, and three times the middles between them.
fn circle() -> Vec<(f32, f32)> {
    let mut corners = vec![(1.0_f32, 0.0_f32), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)];
    for _ in 0..3 {
        let following = corners.iter().cycle().skip(1);
        let pairs = corners.iter().zip(following).flat_map(|(&a, &b)| {
            let (x, y) = (a.0 + b.0, a.1 + b.1);
            let length = (x * x + y * y).sqrt();
            [a, (x / length, y / length)]
        });
        corners = pairs.collect();
    }
    corners
}

const HALF_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;

// Constants instead of computed values: sines differ in the last bit between platforms.
const TRIANGLE: [(f32, f32); 3] = [(0.0, 1.0), (-0.866_025_4, -0.5), (0.866_025_4, -0.5)];
const SQUARE: [(f32, f32); 4] = [
    (HALF_SQRT_2, HALF_SQRT_2),
    (-HALF_SQRT_2, HALF_SQRT_2),
    (-HALF_SQRT_2, -HALF_SQRT_2),
    (HALF_SQRT_2, -HALF_SQRT_2),
];
const CROSS: [(f32, f32); 12] = [
    (0.94, 0.3),
    (0.3, 0.3),
    (0.3, 0.94),
    (-0.3, 0.94),
    (-0.3, 0.3),
    (-0.94, 0.3),
    (-0.94, -0.3),
    (-0.3, -0.3),
    (-0.3, -0.94),
    (0.3, -0.94),
    (0.3, -0.3),
    (0.94, -0.3),
];
const DIAMOND: [(f32, f32); 4] = [(1.0, 0.0), (0.0, 0.5), (-1.0, 0.0), (0.0, -0.5)];
const HEXAGON: [(f32, f32); 6] = [
    (1.0, 0.0),
    (0.5, 0.866_025_4),
    (-0.5, 0.866_025_4),
    (-1.0, 0.0),
    (-0.5, -0.866_025_4),
    (0.5, -0.866_025_4),
];
const PENTAGON: [(f32, f32); 5] = [
    (0.0, 1.0),
    (-0.951_056_54, 0.309_017),
    (-0.587_785_24, -0.809_017),
    (0.587_785_24, -0.809_017),
    (0.951_056_54, 0.309_017),
];
/// The pentagon's corners, alternating with points at 0.4 of the radius, rotated by half a step.
const STAR: [(f32, f32); 10] = [
    (0.0, 1.0),
    (-0.235_114_1, 0.323_606_8),
    (-0.951_056_54, 0.309_017),
    (-0.380_422_6, -0.123_606_8),
    (-0.587_785_24, -0.809_017),
    (0.0, -0.4),
    (0.587_785_24, -0.809_017),
    (0.380_422_6, -0.123_606_8),
    (0.951_056_54, 0.309_017),
    (0.235_114_1, 0.323_606_8),
];

/// Even-odd rule.
fn in_polygon(corners: &[(f32, f32)], x: f32, y: f32) -> bool {
    let mut inside = false;
    let following = corners.iter().cycle().skip(1);
    for (&(ax, ay), &(bx, by)) in corners.iter().zip(following) {
        if (ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax {
            inside = !inside;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_those_of_geometry() {
        let pi = std::f64::consts::PI;
        // n / 2 sin(2 pi / n) for a regular polygon; 5 * 0.4 * sin(36 degrees) for the star.
        let regular = |n: f64| n / 2.0 * (2.0 * pi / n).sin();
        // A circle minus its lens with a circle of radius 0.8 at distance 0.45, from the closed formula.
        let (r, d) = (0.8_f64, 0.45_f64);
        let lens = r * r * ((d * d + r * r - 1.0) / (2.0 * d * r)).acos()
            + ((d * d + 1.0 - r * r) / (2.0 * d)).acos()
            - 0.5 * ((-d + r + 1.0) * (d + r - 1.0) * (d - r + 1.0) * (d + r + 1.0)).sqrt();
        let expected = |figure| match figure {
            Figure::Circle => pi,
            Figure::Ring => pi * (1.0 - 0.55 * 0.55),
            Figure::Square => 2.0,
            Figure::Triangle => regular(3.0),
            Figure::Pentagon => regular(5.0),
            Figure::Hexagon => regular(6.0),
            Figure::Star => 5.0 * 0.4 * (pi / 5.0).sin(),
            Figure::Diamond => 1.0,
            Figure::Cross => 4.0 * 0.94 * 0.6 - 0.36,
            Figure::Crescent => pi - lens,
        };
        let n = 800;
        for figure in Figure::ALL {
            let at = |i: i32| (i as f32 + 0.5) / n as f32 * 2.0 - 1.0;
            let count = (0..n * n)
                .filter(|i| figure.contains(at(i % n), at(i / n)))
                .count();
            let area = count as f64 * 4.0 / f64::from(n * n);
            let wanted = expected(figure);
            assert!((area - wanted).abs() < 0.01, "{figure:?}: {area} {wanted}");
        }
    }
    #[test]
    fn outlines_enclose_the_shapes() {
        let n = 400;
        let at = |i: i32| (i as f32 + 0.5) / n as f32 * 2.0 - 1.0;
        for figure in Figure::ALL {
            let Some(outline) = figure.outline() else {
                assert!(matches!(figure, Figure::Ring | Figure::Crescent));
                continue;
            };
            let differing = (0..n * n).filter(|i| {
                let (x, y) = (at(i % n), at(i / n));
                in_polygon(&outline, x, y) != figure.contains(x, y)
            });
            // The segments between a circle and its polygon: pi - 16 sin(2 pi / 32), of a square of area 4.
            let allowed = if figure == Figure::Circle {
                0.0053
            } else {
                0.0
            };
            let share = differing.count() as f64 / f64::from(n * n);
            assert!(share <= allowed, "{figure:?}: {share}");
        }
    }
}
