//! `kvt probe --method linear`

use std::io::Write;
use std::sync::Arc;

use burn::tensor::Tensor;
use kvt_ops::Key;

use super::{Args, Crops, Probe, Results};
use crate::augment::{AugmentConfig, Interpolation, Preset};
use crate::cli::common::bar;
use crate::cli::output;
use crate::config::Plan;
use crate::data::{Batch, Split, Splits, train_transform};
use crate::error::TrainError;
use crate::fs::write_atomic;
use crate::probe::{LinearEpoch, LinearProbe, LinearRecipe, Rows, linear};
use crate::report::{Axis, Chart, Line, Names};

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
            let batches = |epoch: u32| Ok(shuffled(&bank, probe, &recipe, epoch));
            linear(&recipe, layer, judged, batches, tell)?
        }
        Crops::Dino | Crops::Config => {
            let (plan, splits) = cut(probe, args.crops)?;
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
        let svg = curves(&done).map_err(anyhow::Error::msg)?;
        write_atomic(&folder.join("linear.svg"), |out| {
            out.write_all(svg.as_bytes())
        })?;
    }
    let best = done.iter().map(|epoch| epoch.top1).fold(0.0, f64::max);
    output::status(&format!("best top-1 {best:.2} % of {} epochs", done.len()));
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

/// The batches of an epoch from features that were computed once, in another order each time.
fn shuffled<'a>(
    bank: &'a Rows,
    probe: &'a Probe,
    recipe: &LinearRecipe,
    epoch: u32,
) -> impl Iterator<Item = Result<(Tensor<2>, Vec<u32>), TrainError>> + use<'a> {
    let order = crate::data::epoch_order(bank.len(), epoch.into(), probe.plan.seed, true);
    let size = recipe.batch_size;
    let batches = order.len().div_ceil(size);
    (0..batches).map(move |batch| {
        let places = order.iter().skip(batch * size).take(size);
        let row = |place: &u32| {
            let from = *place as usize * bank.dim;
            bank.features.get(from..from + bank.dim).unwrap_or_default()
        };
        let part = Rows {
            features: places.clone().flat_map(row).copied().collect(),
            dim: bank.dim,
            labels: places
                .filter_map(|place| bank.labels.get(*place as usize).copied())
                .collect(),
            indices: Vec::new(),
        };
        Ok((part.tensor(&probe.device), part.labels))
    })
}

/// The plan and the images, cut for training.
fn cut(probe: &Probe, crops: Crops) -> anyhow::Result<(Plan, Splits)> {
    let mut plan = each_image_once(&probe.plan);
    if crops == Crops::Dino {
        let config = &probe.plan.augment;
        let default = AugmentConfig::default();
        plan.augment = AugmentConfig {
            preset: Preset::Imagenet,
            interpolation: Interpolation::Bilinear,
            mean: config.mean,
            std: config.std,
            ..default
        };
    }
    let view = train_transform(&plan, probe.size)?;
    let splits = probe.splits.clone().with_train_views(vec![Arc::new(view)]);
    Ok((plan, splits))
}

/// The original's loader, whatever the training run's: each image once, in a new order, the short batch as well.
fn each_image_once(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.data.repeats = 1;
    plan.data.replicas = 1;
    plan.data.shuffle = true;
    plan.data.drop_last = false;
    plan
}

/// Training loss over the epochs.
fn curves(done: &[LinearEpoch]) -> Result<String, String> {
    let axis = |label| Axis {
        label,
        logarithmic: false,
        ticks: Vec::new(),
    };
    let line = |name: &str, color, value: &dyn Fn(&LinearEpoch) -> f64| Line {
        name: name.to_owned(),
        color,
        dash: None,
        points: done
            .iter()
            .map(|epoch| (f64::from(epoch.epoch + 1), value(epoch)))
            .collect(),
    };
    Chart {
        title: "Linear evaluation",
        x: axis("epoch"),
        y: axis("training loss"),
        lines: vec![line("training loss", 0, &|epoch| epoch.loss)],
        names: Names::Beside,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;
    use image::RgbImage;

    use super::*;
    use crate::config::load_plan;
    use crate::probe::Extractor;

    /// A run that sees each image three times, in order and without the short batch, is judged on all of them.
    #[test]
    fn an_epoch_has_each_image_once() {
        let folder = tempfile::tempdir().unwrap();
        for (place, index) in ["train/a", "train/b", "train/c", "val/a", "val/b", "val/c"]
            .iter()
            .flat_map(|place| (0..6).map(move |index| (place, index)))
        {
            let place = folder.path().join("data").join(place);
            fs_err::create_dir_all(&place).unwrap();
            let image = RgbImage::new(8, 8);
            image.save(place.join(format!("{index}.png"))).unwrap();
        }
        let config = folder.path().join("config.toml");
        let data = folder.path().join("data");
        let keys = format!(
            "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = {data:?}\nrepeats = 3\nreplicas = 2\nshuffle = false\n\
             workers = 0\n[train]\nbatch_size = 5\naccumulate = 2\n"
        );
        fs_err::write(&config, keys).unwrap();
        let plan = load_plan(&config, &[]).unwrap();
        assert_eq!((plan.data.repeats, plan.data.replicas), (3, 2));
        let splits = Splits::open(&plan, (8, 8), None, &mut |_, _| {}).unwrap();
        let probe = Probe {
            plan,
            splits,
            size: (8, 8),
            device: Device::flex(),
            extractor: Extractor::Pixels,
        };
        let (once, splits) = cut(&probe, Crops::Dino).unwrap();
        let epoch = |plan: &Plan, epoch: u32| -> Vec<Vec<u32>> {
            let loader = splits.train_batches(plan, |sample| sample.label, epoch, 0);
            let batches = loader.unwrap().map(|batch| batch.unwrap().indices);
            batches.collect()
        };
        let batches = epoch(&once, 0);
        let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [5, 5, 5, 3]);
        let mut all = batches.concat();
        assert_ne!(all, (0..18).collect::<Vec<u32>>());
        assert_ne!(all, epoch(&once, 1).concat());
        all.sort_unstable();
        assert_eq!(all, (0..18).collect::<Vec<u32>>());
        // The run itself leaves images out.
        let mut own = epoch(&probe.plan, 0).concat();
        own.sort_unstable();
        own.dedup();
        assert!(own.len() < 18, "{own:?}");
    }
}
