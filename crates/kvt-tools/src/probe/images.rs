//! The training images of linear evaluation: cropped again in each epoch, or given as features that were computed once.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use kvt_data::augment::{AugmentConfig, Interpolation, Preset};
use kvt_data::{Balance, DataError, epoch_order};
use kvt_train::config::Plan;
use kvt_train::knn_vote::Rows;
use kvt_train::splits::{Splits, train_transform};

/// How training images are cropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crops {
    /// As in DINO: area 0.08 to 1, bilinear, flips.
    #[default]
    Dino,
    /// As in the configuration.
    Config,
    /// Not at all, so that their features are computed once.
    None,
}

impl Crops {
    /// The name in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dino => "dino",
            Self::Config => "config",
            Self::None => "none",
        }
    }
}

/// The plan and the images of linear evaluation, with training images cropped to `size` (height, width).
///
/// # Errors
/// If the settings of the configuration contradict each other.
pub(crate) fn cut_images(
    plan: &Plan,
    splits: &Splits,
    size: (usize, usize),
    crops: Crops,
) -> Result<(Plan, Splits), DataError> {
    let mut plan = plan.clone();
    // As the original's loader, whatever the training run has: each image once, in a new order, with the last short batch.
    plan.data.repeats = 1;
    plan.data.replicas = 1;
    plan.data.shuffle = true;
    plan.data.drop_last = false;
    plan.data.balance = Balance::None;
    if crops == Crops::Dino {
        plan.augment = AugmentConfig {
            preset: Preset::Imagenet,
            interpolation: Interpolation::Bilinear,
            mean: plan.augment.mean,
            std: plan.augment.std,
            ..AugmentConfig::default()
        };
    }
    let view = train_transform(&plan, size)?;
    let splits = splits.clone().with_train_views(vec![Arc::new(view)]);
    Ok((plan, splits))
}

/// The batches of an epoch from features that were computed once, in a new order in each epoch.
pub(crate) fn shuffled<'a>(
    bank: &'a Rows,
    device: &'a Device,
    seed: u64,
    batch_size: usize,
    epoch: u32,
) -> impl Iterator<Item = (Tensor<2>, Vec<u32>)> + use<'a> {
    let order = epoch_order(bank.len(), epoch.into(), seed, true);
    let batches = order.len().div_ceil(batch_size.max(1));
    (0..batches).map(move |batch| {
        let places = order.iter().skip(batch * batch_size).take(batch_size);
        let part = bank.some(places.map(|place| *place as usize));
        (part.tensor(device), part.labels)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::RgbImage;

    use super::*;
    use kvt_data::Loader;
    use kvt_train::config::load_plan;

    /// Linear evaluation uses each image once, even if the run repeats images, keeps their order and drops the short batch.
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
        fs_err::write(&config, &keys).unwrap();
        let plan = load_plan(&config, &[]).unwrap();
        assert_eq!((plan.data.repeats, plan.data.replicas), (3, 2));
        let splits = Splits::open(&plan, (8, 8), None, &mut |_, _| {}).unwrap();
        let (once, splits) = cut_images(&plan, &splits, (8, 8), Crops::Dino).unwrap();
        let epoch = |plan: &Plan, epoch: u32| -> Vec<Vec<u32>> {
            let prepare = splits.train_views(plan, |sample| sample.label);
            let loader = Loader::start(splits.train_loading(plan, prepare, epoch, 0));
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
        let mut own = epoch(&plan, 0).concat();
        own.sort_unstable();
        own.dedup();
        assert!(own.len() < 18, "{own:?}");
        // One that draws images by their class repeats some.
        let keys = keys.replace(
            "repeats = 3\nreplicas = 2\nshuffle = false",
            "balance = \"uniform\"",
        );
        fs_err::write(&config, keys).unwrap();
        let plan = load_plan(&config, &[]).unwrap();
        assert_eq!(plan.data.balance, Balance::Uniform);
        let (once, _) = cut_images(&plan, &splits, (8, 8), Crops::Dino).unwrap();
        let mut drawn = epoch(&once, 0).concat();
        drawn.sort_unstable();
        assert_eq!(drawn, all);
    }
}
