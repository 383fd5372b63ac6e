//! A colour for each class.

use std::sync::OnceLock;

use kvt_data::IGNORED;

use kvt_train::plot::PALETTE;

/// Levels of a channel that colours are chosen from: not the darkest, which hide the image.
const LEVELS: [u8; 7] = [0x20, 0x45, 0x6a, 0x8f, 0xb4, 0xd9, 0xfe];

/// The colour of a class, always the same: first the palette of the plots, then the colour that is farthest from all before it.
/// The colour of [`IGNORED`] is white.
#[must_use]
pub fn class_color(class: u8) -> [u8; 3] {
    static COLORS: OnceLock<Vec<[u8; 3]>> = OnceLock::new();
    let colors = COLORS.get_or_init(chosen);
    colors.get(usize::from(class)).copied().unwrap_or([255; 3])
}

/// The colour of a class of objects, of which there can be more than of pixels: then colours come again.
#[must_use]
pub fn object_color(class: usize) -> [u8; 3] {
    class_color((class % usize::from(IGNORED)) as u8)
}

/// The colours of all classes.
fn chosen() -> Vec<[u8; 3]> {
    let mut colors: Vec<[u8; 3]> = PALETTE
        .iter()
        .map(|color| [color.0, color.1, color.2])
        .collect();
    let count = LEVELS.len();
    let all = (0..count.pow(3)).map(|n| {
        let levels = [n / count.pow(2), n / count % count, n % count];
        levels.map(|level| LEVELS[level])
    });
    // Each with its distance to the nearest colour that is taken; white is that of no class.
    let with_distance = |color| {
        let taken = colors.iter().chain(&[[255; 3]]);
        let nearest = taken.map(|other| distance(color, *other)).min();
        (color, nearest.unwrap_or(0))
    };
    let mut left: Vec<([u8; 3], u32)> = all.map(with_distance).collect();
    while colors.len() < usize::from(IGNORED) {
        // Of equally distant ones the first, so that the order is fixed.
        let farthest = left.iter().rev().max_by_key(|(_, distance)| *distance);
        let Some(&(new, _)) = farthest else {
            break;
        };
        colors.push(new);
        for (color, nearest) in &mut left {
            *nearest = (*nearest).min(distance(*color, new));
        }
    }
    colors
}

/// A squared distance of colours as the eye has it, roughly: "redmean", <https://www.compuphase.com/cmetric.htm>, times 256.
fn distance(one: [u8; 3], other: [u8; 3]) -> u32 {
    let [red, green, blue] = std::array::from_fn(|c| u32::from(one[c].abs_diff(other[c])));
    let mean = u32::from(one[0].midpoint(other[0]));
    (512 + mean) * red * red + 1024 * green * green + (767 - mean) * blue * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All 255 colours differ, and the first 32 clearly: by 40 of 255 in green, or as much in other directions.
    #[test]
    fn colours_keep_classes_apart() {
        let colors: Vec<[u8; 3]> = (0..=IGNORED).map(class_color).collect();
        let nearest = |colors: &[[u8; 3]]| {
            let pairs = (1..colors.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            pairs.map(|(a, b)| distance(colors[a], colors[b])).min()
        };
        assert!(nearest(&colors) >= Some(1));
        assert!(nearest(&colors[..32]) >= Some(1024 * 40 * 40));
        assert_eq!(colors[0], [0x00, 0x72, 0xb2]);
        assert_eq!(colors[255], [255; 3]);
        let objects = [254, 255, 256].map(object_color);
        assert_eq!(objects, [colors[254], colors[0], colors[1]]);
    }

    #[test]
    fn distances_by_hand() {
        // Green alone: 4 x 10 x 10 x 256.
        assert_eq!(distance([0, 10, 0], [0, 0, 0]), 102_400);
        // Red from 0 to 2: (2 + 1/256) x 4 x 256.
        assert_eq!(distance([2, 0, 0], [0, 0, 0]), 2052);
    }
}
