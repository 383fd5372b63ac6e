//! Where the class token of each run looks on the same image.

use std::slice::from_ref;

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};
use plotters::prelude::*;

use kvt_train::plot::{FONT, register_fonts};
use kvt_train::probe::{Drawn, draw};
use kvt_train::report::html::{Report, Sample};

/// A smaller image is enlarged by a whole factor to at least this width.
const WIDTH: u32 = 192;
/// Pixels of a line of text, and left of it.
const LINE: u32 = 32;
const GAP: u32 = 8;

/// The first sample of each run of a report: below its name the image, and the image under the map of each head.
///
/// # Errors
/// The drawing library's message.
pub(super) fn picture(report: &Report) -> Result<RgbImage, String> {
    let names = report.records.iter().map(|record| record.name.as_str());
    let rows: Vec<(String, RgbImage)> = names
        .enumerate()
        .filter_map(|(run, name)| {
            let sample = report.samples.iter().find(|sample| sample.run == run)?;
            Some((caption(name, sample), row(sample)))
        })
        .collect();
    let width = rows.iter().map(|(_, row)| row.width()).max().unwrap_or(1);
    let heights = rows.iter().map(|(_, row)| LINE + row.height());
    let size = (width, heights.sum::<u32>().max(1));
    let mut sheet = RgbImage::from_pixel(size.0, size.1, Rgb([255; 3]));
    let (mut captions, mut top) = (Vec::new(), 0);
    for (caption, row) in rows {
        captions.push((caption, top + GAP));
        imageops::replace(&mut sheet, &row, 0, i64::from(top + LINE));
        top += LINE + row.height();
    }
    write(&mut sheet, size, &captions).map_err(|error| error.to_string())?;
    Ok(sheet)
}

/// The name of a run, and how many patches each head looks at.
fn caption(name: &str, Sample { maps, .. }: &Sample) -> String {
    let kept: Vec<String> = maps.iter().map(|map| map.kept.to_string()).collect();
    match maps.first() {
        Some(map) => format!(
            "{name}: its heads look at {} of {} patches",
            kept.join(", "),
            map.weights.len()
        ),
        None => name.to_owned(),
    }
}

fn row(Sample { picture, maps, .. }: &Sample) -> RgbImage {
    let (width, height) = picture.dimensions();
    let factor = WIDTH.div_ceil(width.max(1));
    let large = imageops::resize(
        picture,
        factor * width,
        factor * height,
        FilterType::Nearest,
    );
    draw(&large, from_ref(maps), Drawn::OnImage)
}

/// Writes lines of text, each at its distance from the top.
fn write(
    sheet: &mut RgbImage,
    size: (u32, u32),
    lines: &[(String, u32)],
) -> Result<(), Box<dyn std::error::Error>> {
    register_fonts()?;
    let root = BitMapBackend::with_buffer(sheet, size).into_drawing_area();
    let style = (FONT, 18).into_font().color(&BLACK);
    for (line, top) in lines {
        let place = (GAP as i32, *top as i32);
        root.draw(&Text::new(line.as_str(), place, style.clone()))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvt_train::probe::HeadMap;

    #[test]
    fn a_caption_counts_the_patches_of_each_head() {
        let map = |weights: [f64; 4], kept| HeadMap {
            grid: [2, 2],
            weights: weights.to_vec(),
            kept,
        };
        let mut sample = Sample {
            run: 0,
            image: String::new(),
            class: "circle".to_owned(),
            picture: RgbImage::new(4, 4),
            guesses: Vec::new(),
            maps: vec![map([0.5, 0.0, 0.5, 0.0], 2), map([0.25; 4], 4)],
        };
        let text = caption("knn", &sample);
        assert_eq!(text, "knn: its heads look at 2, 4 of 4 patches");
        sample.maps.clear();
        assert_eq!(caption("knn", &sample), "knn");
    }
}
