//! A contact sheet: some training images, each as in evaluation and as augmented in several epochs.

use std::path::PathBuf;
use std::sync::Arc;

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use crate::trained::TrainedError;
use kvt_data::augment::{AugmentConfig, Transform};
use kvt_data::{DataError, DecodeError, OnError, View, image_key, view_key};
use kvt_train::config::Plan;
use kvt_train::plot::{encode_png, write};
use kvt_train::splits::{Splits, eval_transform, image_limits};
use kvt_train::task::{Classify, Dino, Task, TaskKind};

/// Number of images, and of pictures of each: the first is the image as in evaluation.
const ROWS: usize = 4;
pub(super) const COLUMNS: u32 = 8;
/// A smaller picture is enlarged by an integer factor to at least this side, in pixels.
const LEAST_SIDE: u32 = 96;
/// Pixels between pictures; height of a line of text above a row, and of its letters.
const GAP: u32 = 8;
const LINE: u32 = 24;
const LETTERS: u32 = 16;

/// A PNG of the sheet, for pictures of `size` (height, width).
pub(super) fn draw(
    plan: &Plan,
    splits: &Splits,
    size: (usize, usize),
) -> Result<Vec<u8>, TrainedError> {
    let columns = columns(plan, size)?;
    let read = |number| splits.train.raster(number, image_limits(plan));
    let rows = rows(plan, splits, read, |image, number| {
        let mut pictures = Vec::new();
        for column in &columns {
            // The draws are the same as in the run.
            let key = view_key(image_key(plan.seed, column.epoch, number), column.view);
            let own = column.transform.size();
            let view = View::of(image.clone(), &column.transform, key);
            let view = view.map_err(|error| error.at(path(splits, number)))?;
            let picture = picture(&view.pixels, own, &plan.augment);
            pictures.push(if own == size {
                picture
            } else {
                // A smaller view fills its cell.
                let [height, width] = [size.0, size.1].map(|side| side as u32);
                imageops::resize(&picture, width, height, FilterType::Nearest)
            });
        }
        let sample = splits.train.samples.get(number as usize);
        let class = sample.and_then(|sample| splits.classes().get(sample.label as usize));
        Ok((class.cloned().unwrap_or_default(), pictures))
    })?;
    let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
    let sheet = render(&rows, &names, size).map_err(TrainedError::Draw)?;
    encode_png(&sheet, sheet.width(), sheet.height()).map_err(TrainedError::Draw)
}

/// The name of an image and its pictures.
pub(super) type Row = (String, Vec<RgbImage>);

/// A row for each of some images, which `read` reads and `row` draws.
pub(super) fn rows<T>(
    plan: &Plan,
    splits: &Splits,
    read: impl Fn(u32) -> Result<T, DecodeError>,
    mut row: impl FnMut(T, u32) -> Result<Row, TrainedError>,
) -> Result<Vec<Row>, TrainedError> {
    let (mut rows, mut unreadable) = (Vec::new(), None);
    for index in chosen(ROWS, splits.train.samples.len()) {
        // The loader's indices have 32 bits.
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        match read(number) {
            Ok(image) => rows.push(row(image, number)?),
            // The run skips it, too.
            Err(error) if plan.data.on_error == OnError::Skip => {
                unreadable.get_or_insert(error);
            }
            Err(error) => return Err(DataError::from(error).into()),
        }
    }
    match unreadable {
        Some(error) if rows.is_empty() => Err(DataError::from(error).into()),
        _ => Ok(rows),
    }
}

/// The file of a training image.
pub(super) fn path(splits: &Splits, number: u32) -> PathBuf {
    let sample = splits.train.samples.get(number as usize);
    sample.map(|sample| sample.path.clone()).unwrap_or_default()
}

/// The images in a column.
struct Column {
    name: String,
    transform: Arc<Transform>,
    epoch: u64,
    view: usize,
}

/// The columns: the image as in evaluation, and the same view in several epochs, or the views of the first epoch.
fn columns(plan: &Plan, size: (usize, usize)) -> Result<Vec<Column>, DataError> {
    let views = match plan.task {
        TaskKind::Classify | TaskKind::MultiLabel => Classify::views(plan, size)?,
        TaskKind::Dino => Dino::views(plan, size)?,
        // Their sheets are others.
        TaskKind::Segment | TaskKind::Detect => Vec::new(),
    };
    let is_one = views.len() == 1;
    let evaluation = Column {
        name: "evaluation".to_owned(),
        transform: Arc::new(eval_transform(plan, size)?),
        epoch: 0,
        view: 0,
    };
    let training = |number: usize| {
        let (kind, epoch, view) = if is_one {
            ("epoch", number as u64, 0)
        } else {
            ("view", 0, number)
        };
        Some(Column {
            name: format!("{kind} {}", number + 1),
            transform: Arc::clone(views.get(view)?),
            epoch,
            view,
        })
    };
    let training = (0..COLUMNS as usize - 1).filter_map(training);
    Ok(std::iter::once(evaluation).chain(training).collect())
}

/// The places of `count` of so many images, or of all, at equal distances: in a folder sorted by class, these are of several classes.
pub(crate) fn chosen(count: usize, images: usize) -> impl Iterator<Item = usize> {
    let count = count.min(images);
    (0..count).map(move |place| (2 * place + 1) * images / (2 * count))
}

/// The picture before normalisation to `[channels, height, width]`: grey as grey, and what is transparent before white.
pub fn picture(
    numbers: &[f32],
    (height, width): (usize, usize),
    config: &AugmentConfig,
) -> RgbImage {
    let plane = height * width;
    let (height, width) = (height as u32, width as u32);
    RgbImage::from_fn(width, height, |x, y| {
        let at = (y * width + x) as usize;
        let share = |channel: usize| {
            let number = numbers.get(channel * plane + at)?;
            let (mean, std) = (config.mean.get(channel)?, config.std.get(channel)?);
            Some(f64::from(*number) * std + mean)
        };
        let alpha = share(3).map_or(1.0, |alpha| alpha.clamp(0.0, 1.0));
        let level = |channel: usize| {
            let share = share(channel).or_else(|| share(0)).unwrap_or(0.0);
            // The cast saturates: noise of random erasing may be outside the range.
            (255.0 * (alpha * share + (1.0 - alpha))).round() as u8
        };
        Rgb([level(0), level(1), level(2)])
    })
}

/// A row for each image, below a line with the name of its class.
pub(super) fn render(
    rows: &[Row],
    names: &[String],
    size: (usize, usize),
) -> Result<RgbImage, String> {
    let (height, width) = (size.0 as u32, size.1 as u32);
    let factor = LEAST_SIDE.div_ceil(height.max(width)).max(1);
    let (cell_height, cell_width) = (height * factor, width * factor);
    let row_height = LINE + cell_height + GAP;
    let sheet_width = GAP + COLUMNS * (cell_width + GAP);
    let sheet_height = GAP + LINE + rows.len() as u32 * row_height;
    let left = |column: u32| GAP + column * (cell_width + GAP);
    let top = |row: u32| LINE + row * row_height;

    let mut sheet = RgbImage::from_pixel(sheet_width, sheet_height, Rgb([255; 3]));
    let texts = (0..)
        .zip(names)
        .map(|(column, name)| (left(column), GAP, name.clone()));
    let classes = (0..)
        .zip(rows)
        .map(|(row, (class, _))| (left(0), top(row) + GAP, class.clone()));
    let texts: Vec<_> = texts.chain(classes).collect();
    write(&mut sheet, LETTERS, &texts)?;
    for (row, (_, pictures)) in (0..).zip(rows) {
        for (column, picture) in (0..).zip(pictures) {
            let large = imageops::resize(picture, cell_width, cell_height, FilterType::Nearest);
            let (x, y) = (left(column), top(row) + LINE + GAP);
            imageops::replace(&mut sheet, &large, x.into(), y.into());
        }
    }
    Ok(sheet)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kvt_ops::Key;

    use super::*;

    #[test]
    fn images_are_from_all_over_the_folder() {
        assert_eq!(chosen(4, 100).collect::<Vec<_>>(), [12, 37, 62, 87]);
        assert_eq!(chosen(4, 2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(chosen(4, 0).count(), 0);
    }

    #[test]
    fn a_picture_is_what_was_normalised() {
        let image = RgbImage::from_fn(6, 4, |x, y| Rgb([x as u8 * 40, y as u8 * 60, 255]));
        let transform = Transform::evaluation(
            &AugmentConfig {
                crop_pct: 1.0,
                ..AugmentConfig::default()
            },
            (4, 6),
        );
        let shown = transform.unwrap().apply(image.clone(), Key::new(0));
        let numbers = shown.unwrap().pixels;
        assert_eq!(picture(&numbers, (4, 6), &AugmentConfig::default()), image);
    }

    #[test]
    fn every_picture_has_its_place() {
        let colour = |row: u8, column: u8| Rgb([row * 60, column * 30, 7]);
        let row = |row| {
            let pictures = (0..8).map(|column| RgbImage::from_pixel(48, 48, colour(row, column)));
            (format!("class {row}"), pictures.collect())
        };
        let names = vec!["evaluation".to_owned(); 8];
        let sheet = render(&[row(0), row(1), row(2)], &names, (48, 48)).unwrap();
        for row in 0..3 {
            for column in 0..8 {
                let pixels = sheet
                    .pixels()
                    .filter(|pixel| **pixel == colour(row, column));
                // Enlarged by a factor of two.
                assert_eq!(pixels.count(), 96 * 96, "{row} {column}");
            }
        }
        let ink = sheet.pixels().filter(|pixel| pixel.0 == [0x33; 3]).count();
        assert!(ink > 100, "{ink} pixels of text");
    }
}
