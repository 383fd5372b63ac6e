//! `kvt attention-map`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use kvt_ops::Key;

use super::common::Overrides;
use super::output;
use super::table::table;
use super::trained::{self, Trained};
use crate::data::{View, decode, eval_transform, image_limits};
use crate::fs::write_atomic;
use crate::preview;
use crate::probe::{class_attention, draw_maps};
use crate::report::encode_png;

/// `kvt attention-map --run RUN --output DIR IMAGE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt attention-map --run runs/photos some.jpg\n  kvt attention-map --run runs/dino --output maps a.jpg b.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// Image files.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// The folder of the pictures: one for each image, with the image and a map of each head of the last block.
    #[arg(long, value_name = "DIR", default_value = "runs/attention")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Trained {
        plan,
        model,
        device,
        size,
        ..
    } = args.trained.load_backbone(&args.overrides, false)?;
    let device = device.device.inner();
    let transform = eval_transform(&plan, size)?;
    fs_err::create_dir_all(&args.output)?;
    let mut rows = Vec::new();
    for (number, path) in args.images.iter().enumerate() {
        let image = decode(path, image_limits(&plan))?;
        let mut view = View::zeros(1, size);
        transform.apply(image, Key::new(0), view.image_mut(0))?;
        let seen = preview::picture(&view.pixels, size, &plan.augment);
        let maps = class_attention(&model, view.upload(&device))?
            .with_context(|| format!("`{}`", model.config().name()))?;
        let maps = maps.into_iter().next().unwrap_or_default();
        let sheet = draw_maps(&seen, &maps);
        let (width, height) = sheet.dimensions();
        let png = encode_png(&sheet, width, height).map_err(anyhow::Error::msg)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        // Images of several folders may have one name.
        let name = format!("{number:03}-{}.png", stem.to_string_lossy());
        let file = args.output.join(name);
        write_atomic(&file, |out| out.write_all(&png))?;
        for (head, map) in maps.iter().enumerate() {
            let largest = map.weights.iter().copied().fold(0.0, f64::max);
            rows.push(vec![
                file.display().to_string(),
                (head + 1).to_string(),
                format!("{} of {}", map.kept, map.weights.len()),
                format!("{largest:.4}"),
            ]);
        }
    }
    output::print(&table(
        &["picture", "head", "patches looked at", "largest weight"],
        rows,
    ))?;
    Ok(ExitCode::SUCCESS)
}
