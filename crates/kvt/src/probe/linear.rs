//! `kvt probe --method linear`

use kvt_ops::Key;

use super::{Args, Probe, Results};
use crate::common::bar;
use crate::output;
use kvt_data::fs::write_text;
use kvt_train::data::{Batch, Split};
use kvt_train::error::TrainError;
use kvt_train::probe::{
    Crops, LinearEpoch, LinearProbe, LinearRecipe, cut_images, draw_loss, linear, shuffled,
};
use kvt_train::report::interval_of;

pub(super) fn linear_probe(probe: &Probe, args: &Args) -> anyhow::Result<Results> {
    let recipe = LinearRecipe {
        epochs: args.epochs,
        batch_size: args.batch_size,
        lr: args.lr,
    };
    let val = probe.rows(Split::Val, args.val_images)?;
    let key = Key::new(probe.plan.seed).named("probe");
    let progress = bar("epochs", recipe.epochs as usize);
    let tell = |epoch: &LinearEpoch| {
        progress.inc(1);
        if !output::is_watched() {
            output::status(&format!(
                "epoch {}  loss {:.4}  top-1 {:.2} %",
                epoch.epoch + 1,
                epoch.loss,
                epoch.top1
            ));
        }
        true
    };
    let layer = LinearProbe::new(val.dim, probe.classes(), &probe.device, key);
    let judged = (&val, &probe.device);
    let done = match args.crops {
        Crops::None => {
            let bank = probe.rows(Split::Train, args.train_images)?;
            let (seed, size) = (probe.plan.seed, recipe.batch_size);
            let batches = |epoch: u32| {
                let batches = shuffled(&bank, &probe.device, seed, size, epoch);
                Ok(batches.map(Ok))
            };
            linear(&recipe, layer, judged, batches, tell)?
        }
        Crops::Dino | Crops::Config => {
            let (plan, splits) = cut_images(&probe.plan, &probe.splits, probe.size, args.crops)?;
            let batches = |epoch: u32| {
                let loader = splits.train_batches(&plan, |sample| sample.label, epoch, 0)?;
                Ok(loader.map(move |batch| -> Result<_, TrainError> {
                    let Batch {
                        mut views, targets, ..
                    } = batch?;
                    let images = views.swap_remove(0).upload(&probe.device);
                    Ok((probe.extractor.features(images), targets))
                }))
            };
            linear(&recipe, layer, judged, batches, tell)?
        }
    };
    progress.finish_and_clear();
    if let Some(folder) = &args.output {
        let svg = draw_loss(&done).map_err(anyhow::Error::msg)?;
        write_text(&folder.join("linear.svg"), &svg)?;
    }
    let best = done.iter().map(|epoch| epoch.top1).fold(0.0, f64::max);
    output::status(&format!(
        "best top-1 {best:.2} %{} of {} epochs",
        interval_of(best, val.len()),
        done.len()
    ));
    let row = |epoch: &LinearEpoch| {
        vec![
            f64::from(epoch.epoch + 1),
            epoch.lr,
            epoch.loss,
            epoch.top1,
            epoch.top5,
        ]
    };
    Ok(Results {
        header: &["epoch", "lr", "loss", "top1", "top5"],
        rows: done.iter().map(row).collect(),
    })
}
