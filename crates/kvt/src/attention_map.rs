//! `kvt attention-map`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Error};

use super::common::success_if;
use super::each_image::each_image;
use super::table::table;
use super::{output, trained};
use kvt_tools::probe::{Drawn, Layers, Looking, NOTE, attention_maps, labelled, parts};
use kvt_tools::trained::Trained;

/// `kvt attention-map --run RUN --output DIR IMAGE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt attention-map --run runs/photos some.jpg\n  kvt attention-map --run runs/photos --layer all photos/val/cat\n  kvt attention-map --run runs/dino --plain --output maps a.jpg b.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// Image files, folders of images, or patterns such as `photos/*.jpg`.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// Which block: its number from 1, `last` for the last one whose tokens look at the whole image, or `all` of these.
    #[arg(long, value_name = "LAYER", value_parser = layers, default_value = "last")]
    layer: Layers,
    /// Draw the maps beside the image instead of on it.
    #[arg(long)]
    plain: bool,
    /// The folder of the pictures: one for each image, with the image and a map of each head.
    #[arg(
        long,
        alias = "out",
        value_name = "DIR",
        default_value = "runs/attention"
    )]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trained = Trained::load_backbone(&args.trained.origin()?, false, &mut output::warning)?;
    let model = &trained.model;
    let place = if args.plain {
        Drawn::Beside
    } else {
        Drawn::OnImage
    };
    let mut rows = Vec::new();
    let are_all = each_image(&args.images, &trained, &args.output, |shown| {
        let guesses = trained.guesses(shown.view, trained.classes.as_deref(), 1)?;
        let guess = guesses.first().map(|guess| {
            let percent = 100.0 * guess.probability;
            format!("{percent:.1} % {}", guess.class)
        });
        let layers = attention_maps(model, shown.input, args.layer)?
            .with_context(|| format!("`{}`", model.config().name()))?;
        let mut drawn = Vec::new();
        for found in layers {
            let (layer, maps) = (found.layer, found.maps.into_iter().next());
            let maps = maps.unwrap_or_default();
            let who = match found.looking {
                Looking::ClassToken => "class token",
                Looking::AllPatches => "mean of all",
            };
            for (head, map) in maps.iter().enumerate() {
                let largest = map.weights.iter().copied().fold(0.0, f64::max);
                rows.push(vec![
                    shown.file.display().to_string(),
                    layer.to_string(),
                    (head + 1).to_string(),
                    who.to_owned(),
                    format!("{} of {}", map.kept, map.weights.len()),
                    format!("{largest:.4}"),
                ]);
            }
            let layer = format!("layer {layer}, {who}");
            let words = guess.iter().cloned().chain([layer]).collect();
            drawn.push(parts(&shown.seen, words, &maps, place));
        }
        labelled(&drawn, NOTE).map_err(Error::msg)
    })?;
    let header = "picture,layer,head,who looks,patches looked at,largest weight";
    if !rows.is_empty() {
        output::print(&table(header.split(','), rows))?;
    }
    Ok(success_if(are_all))
}

/// `last`, `all`, or a number from 1.
fn layers(text: &str) -> Result<Layers, String> {
    match (text, text.parse()) {
        ("last", _) => Ok(Layers::Last),
        ("all", _) => Ok(Layers::All),
        (_, Ok(layer)) if layer > 0 => Ok(Layers::One(layer)),
        _ => Err("expected `last`, `all`, or the number of a block, from 1".to_owned()),
    }
}
