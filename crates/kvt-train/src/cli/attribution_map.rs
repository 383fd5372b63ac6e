//! `kvt attribution-map`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use image::RgbImage;
use kvt_ops::Key;

use super::common::Overrides;
use super::images::expand;
use super::output;
use super::table::table;
use super::trained::{self, Trained};
use crate::analysis::attribution::{attribute, check, enlarge, normalized, overlay};
use crate::data::{View, decode, eval_transform, image_limits};
use crate::fs::{write_atomic, write_text};
use crate::preview;
use crate::probe::sheet;
use crate::report::{csv_field, encode_png};

/// `kvt attribution-map --run RUN IMAGE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt attribution-map --run runs/photos some.jpg\n  kvt attribution-map --run runs/photos --class cat --out maps some.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// Image files, folders, or patterns.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// The class that patches speak for, by its name, or by its number, from 0 on; by default the one that the model takes the
    /// image for.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The folder of the pictures, one for each image (the image, and what speaks for the class laid over it, from blue to red),
    /// and of `relevance.csv`.
    #[arg(long, value_name = "DIR", default_value = "runs/attribution")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trained = args.trained.load(&args.overrides)?;
    // Before images are looked for.
    check(&trained.model)?;
    let Trained {
        plan,
        model,
        device,
        classes,
        size,
    } = trained;
    let class = match &args.class {
        Some(class) => Some(number(class, classes.as_deref())?),
        None => None,
    };
    let (files, mut are_all) = expand(&args.images);
    let device = device.device.inner();
    let transform = eval_transform(&plan, size)?;
    fs_err::create_dir_all(&args.out)?;
    let mut csv = "image,class,row,column,relevance\n".to_owned();
    let mut rows = Vec::new();
    for (count, path) in files.iter().enumerate() {
        let image = match decode(path, image_limits(&plan)) {
            Ok(image) => image,
            Err(error) => {
                // As `kvt attention-map` does: the rest is drawn, and the exit status tells.
                output::error(&error.to_string());
                are_all = false;
                continue;
            }
        };
        let mut view = View::zeros(1, size);
        transform.apply(image, Key::new(0), view.image_mut(0))?;
        let seen = preview::picture(&view.pixels, size, &plan.augment);
        let found = attribute(&model, view.upload(&device), class)
            .with_context(|| format!("`{}`", path.display()))?;
        let [grid_rows, columns] = found.grid;
        let name = classes.as_ref().and_then(|names| names.get(found.class));
        let name = name.cloned().unwrap_or_else(|| found.class.to_string());
        for (place, relevance) in found.patches.iter().enumerate() {
            let (row, column) = (place / columns.max(1), place % columns.max(1));
            let image = csv_field(&path.display().to_string());
            let class = csv_field(&name);
            csv += &format!("{image},{class},{row},{column},{relevance}\n");
        }
        let map = enlarge(&found.patches, [grid_rows, columns], [size.0, size.1]);
        let drawn = overlay(&seen, &normalized(&map));
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        // Images of several folders may have one name.
        let file = args
            .out
            .join(format!("{count:03}-{}.png", stem.to_string_lossy()));
        write_png(&file, &sheet(&[vec![(seen, None), (drawn, None)]]))?;
        rows.push(vec![
            file.display().to_string(),
            name,
            format!("{:.2} %", 100.0 * found.probability()),
            format!("{:.0} %", 100.0 * found.half()),
        ]);
    }
    if rows.is_empty() {
        bail!("no image could be read: nothing is drawn");
    }
    write_text(&args.out.join("relevance.csv"), &csv)?;
    let header = [
        "picture",
        "class",
        "probability",
        "patches with half of the relevance",
    ];
    output::print(&table(&header, rows))?;
    Ok(match are_all {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write_png(file: &Path, picture: &RgbImage) -> anyhow::Result<()> {
    let (width, height) = picture.dimensions();
    let png = encode_png(picture, width, height).map_err(anyhow::Error::msg)?;
    Ok(write_atomic(file, |out| out.write_all(&png))?)
}

/// The number of a class by its name, where names are known, or by its number.
fn number(class: &str, names: Option<&[String]>) -> anyhow::Result<usize> {
    let named = names.and_then(|names| names.iter().position(|name| name == class));
    if let Some(number) = named.or_else(|| class.parse().ok()) {
        return Ok(number);
    }
    match names {
        Some(_) => bail!(
            "there is no class `{class}`: the model's classes are those of `classes.txt` in its run"
        ),
        None => bail!("`{class}` is no number, and the names of the model's classes are not known"),
    }
}
