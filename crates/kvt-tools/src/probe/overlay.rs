//! Maps of attention, drawn on the image that they are of.

use image::{Rgb, RgbImage};

use super::attention::{HeadMap, color, heat};
use super::labelled::{Labelled, readable};
use kvt_train::plot::number;

/// How much of a colour is on the image: where the weight is small, where it is the largest, and where a patch is not kept.
const FAINT: f64 = 0.15;
const STRONG: f64 = 0.7;
const DROPPED: f64 = 0.7;

/// What the colours of a map mean, in words.
pub const NOTE: &str = "From black (little) through red and yellow to white. White is the weight named above a map: its \
                        largest, or 3 times the mean of its kept patches where that is more. Blue patches are not kept.";

/// Where maps are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// On the image: the larger the weight of a patch, the more it glows; a patch that is not kept is grey and dark.
    OnImage,
    /// Beside the image: the colours alone.
    Beside,
}

/// A row of a picture: the image below `words`, and the map of each head, large enough to be read.
#[must_use]
pub fn parts(
    image: &RgbImage,
    words: Vec<String>,
    maps: &[HeadMap],
    drawn: Drawn,
) -> Vec<Labelled> {
    let finest = maps.iter().map(|map| map.grid[1]).max().unwrap_or(1);
    let image = readable(image, finest);
    let heads = (1..).zip(maps).map(|(head, map)| Labelled {
        picture: part(&image, map, drawn),
        words: vec![
            format!("head {head}: {} of {} kept", map.kept, map.weights.len()),
            format!("white is {}", number(map.white())),
        ],
    });
    let heads: Vec<Labelled> = heads.collect();
    let first = Labelled {
        picture: image,
        words,
    };
    std::iter::once(first).chain(heads).collect()
}

/// An image with a map of the same size over it, a number from 0 to 1 for each pixel: the larger it is, the more the pixel glows.
#[must_use]
pub fn glow(image: &RgbImage, map: &[f64]) -> RgbImage {
    let mut drawn = image.clone();
    for (pixel, share) in drawn.pixels_mut().zip(map) {
        *pixel = lit(*pixel, *share);
    }
    drawn
}

fn part(image: &RgbImage, map: &HeadMap, drawn: Drawn) -> RgbImage {
    let (width, height) = image.dimensions();
    let [rows, columns] = map.grid;
    let white = map.white();
    RgbImage::from_fn(width, height, |x, y| {
        let row = y as usize * rows / height as usize;
        let column = x as usize * columns / width as usize;
        let weight = map
            .weights
            .get(row * columns + column)
            .copied()
            .unwrap_or(0.0);
        if drawn == Drawn::Beside {
            return color(weight, white);
        }
        let pixel = *image.get_pixel(x, y);
        if weight <= 0.0 || white <= 0.0 {
            return mixed(grey(pixel), color(0.0, white), DROPPED);
        }
        lit(pixel, weight / white)
    })
}

/// A pixel that glows by a share, from 0 to 1.
fn lit(pixel: Rgb<u8>, share: f64) -> Rgb<u8> {
    let strength = FAINT + (STRONG - FAINT) * share.clamp(0.0, 1.0);
    mixed(pixel, heat(share), strength)
}

/// The brightness of a pixel (ITU-R BT.601), as Pillow's `L`.
fn grey(Rgb([red, green, blue]): Rgb<u8>) -> Rgb<u8> {
    let level = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    Rgb([level.round() as u8; 3])
}

/// A share of one colour over another.
fn mixed(under: Rgb<u8>, over: Rgb<u8>, share: f64) -> Rgb<u8> {
    let level = |under: u8, over: u8| f64::from(under) * (1.0 - share) + f64::from(over) * share;
    Rgb(std::array::from_fn(|c| {
        level(under.0[c], over.0[c]).round() as u8
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Rgb<u8> = Rgb([200, 0, 0]);

    /// The red image with maps of two by two patches, and the colours of the patches of the map at a place.
    fn drawn(maps: &[[f64; 4]], drawn: Drawn) -> Vec<(Vec<String>, [Rgb<u8>; 4])> {
        let maps = maps.iter().map(|weights| HeadMap {
            grid: [2, 2],
            weights: weights.to_vec(),
            kept: weights.iter().filter(|weight| **weight > 0.0).count(),
        });
        let image = RgbImage::from_pixel(16, 16, RED);
        let words = vec!["an image".to_owned()];
        let tiles = parts(&image, words, &maps.collect::<Vec<_>>(), drawn);
        let tiles = tiles.into_iter().map(|tile| {
            assert_eq!(tile.picture.dimensions(), (224, 224));
            let places = [(0, 0), (112, 0), (0, 112), (223, 223)];
            let colors = places.map(|(x, y)| *tile.picture.get_pixel(x, y));
            (tile.words, colors)
        });
        tiles.collect()
    }

    /// By hand: three kept patches with a mean of 0.85 / 3, so that 0.85 is white.
    #[test]
    fn maps_lie_on_the_image() {
        let weights = [[0.5, 0.25, 0.0, 0.1]];
        let tiles = drawn(&weights, Drawn::OnImage);
        assert_eq!(tiles[0], (vec!["an image".to_owned()], [RED; 4]));
        let (words, colors) = &tiles[1];
        assert_eq!(words, &["head 1: 3 of 4 kept", "white is 0.85"]);
        // 0.526 of (200, 0, 0) and 0.474 of (255, 195, 0); 0.688 of it and 0.312 of (225, 0, 0).
        assert_eq!(colors[..2], [Rgb([226, 92, 0]), Rgb([208, 0, 0])]);
        // Grey 60: 0.3 of it and 0.7 of (20, 24, 80).
        assert_eq!(colors[2], Rgb([32, 35, 74]));
        let beside = drawn(&weights, Drawn::Beside);
        let expected = [Rgb([255, 195, 0]), Rgb([225, 0, 0]), Rgb([20, 24, 80])];
        assert_eq!(beside[1].1[..3], expected);
    }

    /// A map of even weights stays the image, a little redder; one patch with nearly all of the weight is white.
    #[test]
    fn even_weights_do_not_wash_out_the_image() {
        let tiles = drawn(&[[0.1; 4], [0.97, 0.01, 0.01, 0.01]], Drawn::OnImage);
        // Two thirds of (200, 0, 0) and a third of (255, 0, 0).
        assert_eq!(tiles[1].1, [Rgb([218, 0, 0]); 4]);
        assert_eq!(tiles[2].0[1], "white is 0.97");
        // 0.3 of (200, 0, 0) and 0.7 of white.
        assert_eq!(tiles[2].1[0], Rgb([239, 179, 179]));
    }

    #[test]
    fn pixels_glow_by_their_share() {
        let image = RgbImage::from_pixel(2, 1, RED);
        let drawn = glow(&image, &[1.0, 0.0]);
        // 0.85 of (200, 0, 0) and 0.15 of black.
        assert_eq!(drawn.get_pixel(1, 0), &Rgb([170, 0, 0]));
        assert_eq!(drawn.get_pixel(0, 0), &Rgb([239, 179, 179]));
    }
}
