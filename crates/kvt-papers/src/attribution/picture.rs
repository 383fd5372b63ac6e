//! Relevance as a picture: resized to the image, scaled to `[0, 1]` and laid over it, in the colours of maps of attention.

use image::RgbImage;

use super::Attribution;
use kvt_tools::probe::{Labelled, glow, readable};

/// What the colours mean, in words.
pub const NOTE: &str = "The brighter a patch, the more it speaks for the class: from the smallest relevance of a picture (dark) through \
                        red and yellow to its largest (white).";

/// A row of a picture: the image below `words`, and beside it what speaks for a class, below a title and the probability.
#[must_use]
pub fn said(
    image: &RgbImage,
    words: Vec<String>,
    found: &[(String, &Attribution)],
) -> Vec<Labelled> {
    let finest = found.iter().map(|(_, found)| found.grid[1]).max();
    let image = readable(image, finest.unwrap_or(1));
    let (width, height) = image.dimensions();
    let maps = found.iter().map(|(title, found)| {
        let map = enlarge(
            &found.patches,
            found.grid,
            [height, width].map(|side| side as usize),
        );
        Labelled {
            picture: glow(&image, &normalized(&map)),
            words: vec![
                title.clone(),
                format!("probability {:.1} %", 100.0 * found.probability()),
            ],
        }
    });
    let maps: Vec<Labelled> = maps.collect();
    let first = Labelled {
        picture: image,
        words,
    };
    std::iter::once(first).chain(maps).collect()
}

/// Resizes a map `[rows, columns]`, row by row: bilinear between cell centres and constant beyond them, as
/// `torch.nn.functional.interpolate(mode="bilinear")`.
fn enlarge(map: &[f64], [rows, columns]: [usize; 2], [height, width]: [usize; 2]) -> Vec<f64> {
    let places = |count: usize, size: usize| -> Vec<(usize, usize, f64)> {
        let last = count.saturating_sub(1);
        let place = |index: usize| {
            let scale = count as f64 / size.max(1) as f64;
            let at = ((index as f64 + 0.5) * scale - 0.5).max(0.0);
            let low = (at.floor() as usize).min(last);
            (low, (low + 1).min(last), at - low as f64)
        };
        (0..size).map(place).collect()
    };
    let (down, across) = (places(rows, height), places(columns, width));
    let cell = |row: usize, column: usize| map.get(row * columns + column).copied().unwrap_or(0.0);
    let mut all = Vec::with_capacity(height * width);
    for &(top, bottom, part) in &down {
        all.extend(across.iter().map(|&(left, right, share)| {
            let line = |row| cell(row, left) * (1.0 - share) + cell(row, right) * share;
            line(top) * (1.0 - part) + line(bottom) * part
        }));
    }
    all
}

/// Scales values so that the smallest is 0 and the largest is 1; all become 0 if they are equal.
fn normalized(values: &[f64]) -> Vec<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let length = high - low;
    let stretch = |value: &f64| {
        if length > 0.0 {
            (value - low) / length
        } else {
            0.0
        }
    };
    values.iter().map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.nn.functional.interpolate(torch.tensor([[[[0., 4.], [8., 12.]]]]), size=(4, 2), mode="bilinear")`
    #[test]
    fn relevance_is_enlarged_as_torch_does() {
        let found = enlarge(&[0.0, 4.0, 8.0, 12.0], [2, 2], [4, 2]);
        assert_eq!(found, [0.0, 4.0, 2.0, 6.0, 6.0, 10.0, 8.0, 12.0]);
        assert_eq!(normalized(&[1.0, 3.0, 2.0]), [0.0, 1.0, 0.5]);
        assert_eq!(normalized(&[2.0, 2.0]), [0.0, 0.0]);
    }

    /// Two patches beside each other: the right one speaks for the class and is brighter.
    #[test]
    fn what_speaks_for_a_class_is_below_its_probability() {
        let found = Attribution {
            class: 1,
            logits: vec![0.0, 3.0_f32.ln()],
            grid: [1, 2],
            patches: vec![0.1, 0.4],
            blocks: Vec::new(),
            has_labels: false,
        };
        let image = RgbImage::new(32, 32);
        let row = said(
            &image,
            vec!["cat.png".to_owned()],
            &[("for cat".to_owned(), &found)],
        );
        let words: Vec<_> = row.iter().map(|tile| tile.words.join(", ")).collect();
        assert_eq!(words, ["cat.png", "for cat, probability 75.0 %"]);
        // Of labels, the logits of others say nothing about this one.
        let label = Attribution {
            logits: vec![5.0, 3.0_f32.ln()],
            ..found
        };
        assert!(label.probability() < 0.1);
        let label = Attribution {
            has_labels: true,
            ..label
        };
        assert!((label.probability() - 0.75).abs() < 1e-6);
        let level = |x| row[1].picture.get_pixel(x, 100).0;
        assert_eq!(row[1].picture.dimensions(), (224, 224));
        // The ends: black, and 0.7 of white over black.
        assert_eq!((level(0), level(223)), ([0; 3], [179; 3]));
    }
}
