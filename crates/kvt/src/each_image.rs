//! Commands that draw a picture for each image of the command line.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use burn::tensor::Tensor;
use image::{ImageFormat, RgbImage};

use super::images::expand;
use super::output;
use kvt_data::escape::one_line;
use kvt_tools::preview;
use kvt_tools::trained::Trained;
use kvt_train::data::{DataError, View};
use kvt_train::plot::save_png;
use kvt_train::splits::image_limits;

/// An image, and the file of its picture.
pub(super) struct Shown<'a> {
    pub(super) path: &'a Path,
    /// What the model gets, normalised.
    pub(super) view: View,
    /// The same on the device, `[1, 3, height, width]`.
    pub(super) input: Tensor<4>,
    /// The same pixels as a picture.
    pub(super) seen: RgbImage,
    pub(super) file: PathBuf,
}

/// Writes the picture that `draw` makes of each image into the folder `out`. As in `kvt predict`, errors of images that cannot be
/// read are printed, and the others are still drawn; the result says whether there were images and all of them were read.
pub(super) fn each_image(
    images: &[PathBuf],
    trained: &Trained,
    out: &Path,
    mut draw: impl FnMut(Shown<'_>) -> anyhow::Result<RgbImage>,
) -> anyhow::Result<bool> {
    let is_named_as_picture = ImageFormat::from_path(out).is_ok() && !out.is_dir();
    ensure!(
        !is_named_as_picture,
        "`{}` would be a folder, with a picture for each image: name a folder, such as `{}`",
        out.display(),
        out.with_extension("").display()
    );
    let (plan, transform) = (&trained.plan, trained.transform()?);
    let device = trained.device.device.clone().inner();
    let (files, mut are_all) = expand(images);
    fs_err::create_dir_all(out)?;
    for (number, path) in files.iter().enumerate() {
        let view = match View::of_file(path, image_limits(plan), &transform) {
            Ok(view) => view,
            Err(DataError::Decode(error)) => {
                output::error(&one_line(&error.to_string()));
                are_all = false;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let seen = preview::picture(&view.pixels, trained.size, &plan.augment);
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        // The number distinguishes images of the same name in several folders.
        let file = out.join(format!("{number:03}-{}.png", stem.to_string_lossy()));
        let picture = draw(Shown {
            path,
            input: view.clone().upload(&device),
            view,
            seen,
            file: file.clone(),
        })?;
        save_png(&file, &picture)?;
    }
    Ok(are_all && !files.is_empty())
}
