//! The keys of one query in each backbone, and which of them it keeps.

use anyhow::Context;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::Neighbors;
use kvt_ops::knn_softmax;
use kvt_train::data::Split;
use kvt_train::data::shapes::{Figure, ShapesConfig, render};
use plotters::style::RGBColor;

use crate::map::{GRID, Map, PIXELS, query_place};

/// The image: a cross whose arms reach into several windows.
const FIGURE: Figure = Figure::Cross;
const INDEX: usize = 5;
/// Side of a window in patches; shifted windows are off by half of it.
const WINDOW: usize = 8;
/// The share of its keys that a query keeps.
const SHARE: f64 = 0.5;

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    Kept,
    Dropped,
    Unseen,
}

/// The keys of a query, and what becomes of them.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) keys: Map,
    pub(crate) fates: Vec<Fate>,
    /// The query is a patch of a map of so many along a side.
    pub(crate) grid: usize,
    /// Its colour.
    pub(crate) color: RGBColor,
}

impl Panel {
    /// A query of the map `queries` chooses among those of `keys` that it sees.
    fn new(
        title: &str,
        queries: &Map,
        keys: Map,
        sees: impl Fn(usize) -> bool,
    ) -> anyhow::Result<Self> {
        let place = query_place(queries.side);
        let vectors = keys.vectors();
        let seen: Vec<usize> = (0..vectors.len()).filter(|&key| sees(key)).collect();
        let k = Neighbors::fraction(SHARE)?.resolve(seen.len());
        let visible: Vec<f32> = seen.iter().flat_map(|&key| vectors[key].clone()).collect();
        let query = queries.vectors().swap_remove(place);
        let mut fates = vec![Fate::Unseen; vectors.len()];
        for (key, kept) in seen.iter().zip(select(query, visible, k)?) {
            fates[*key] = if kept { Fate::Kept } else { Fate::Dropped };
        }
        Ok(Self {
            title: title.to_owned(),
            subtitle: format!("{} keys, k = {k}", seen.len()),
            keys,
            fates,
            grid: queries.side,
            color: queries.color(place),
        })
    }
}

/// Which of the keys are among the `k` best of the query, by the project's own selection.
fn select(query: Vec<f32>, keys: Vec<f32>, k: usize) -> anyhow::Result<Vec<bool>> {
    let device = Device::flex();
    let dim = query.len();
    let shape = [keys.len() / dim, dim];
    let query = Tensor::<2>::from_data(TensorData::new(query, [1, dim]), &device);
    let keys = Tensor::<2>::from_data(TensorData::new(keys, shape), &device);
    let scores = query.matmul(keys.transpose()) * (dim as f64).powf(-0.5);
    let weights = knn_softmax(scores, k).into_data();
    let weights = weights
        .try_to_vec::<f32>()
        .context("the weights are not f32")?;
    Ok(weights.iter().map(|&weight| weight > 0.0).collect())
}

pub(crate) fn panels() -> anyhow::Result<Vec<Panel>> {
    let config = ShapesConfig {
        image_size: PIXELS,
        ..ShapesConfig::default()
    };
    let key = config.key(Split::Train, FIGURE, INDEX);
    let (clutter, occlusion) = (config.clutter as f32, config.occlusion as f32);
    let map = || Map::cut(&render(FIGURE, PIXELS as usize, clutter, occlusion, key));
    let all = |_| true;

    let fine = map();
    let (half, quarter) = (fine.pooled(), fine.pooled().pooled());
    let place = query_place(GRID);
    let image = Panel {
        title: "the image".to_owned(),
        subtitle: format!("{GRID} x {GRID} patches"),
        keys: map(),
        fates: vec![Fate::Kept; GRID * GRID],
        grid: GRID,
        color: fine.color(place),
    };
    Ok(vec![
        image,
        Panel::new("DeiT", &fine, map(), all)?,
        Panel::new("Swin, window", &fine, map(), |key| in_window(key, place, 0))?,
        Panel::new("Swin, shifted window", &fine, map(), |key| {
            in_window(key, place, WINDOW / 2)
        })?,
        Panel::new("PiT, first stage", &fine, map(), all)?,
        Panel::new("PiT, second stage", &half, fine.pooled(), all)?,
        Panel::new("PiT, third stage", &quarter, half.pooled(), all)?,
        Panel::new("CvT, kv_stride = 2", &fine, fine.pooled(), all)?,
    ])
}

/// Whether two patches share a window after the map was rolled up and to the left by `shift`, and have not been brought
/// together by that from opposite ends of the image.
fn in_window(key: usize, query: usize, shift: usize) -> bool {
    let along = |key: usize, query: usize| {
        let window = |place: usize| (place + GRID - shift) % GRID / WINDOW;
        window(key) == window(query) && (key < shift) == (query < shift)
    };
    along(key / GRID, query / GRID) && along(key % GRID, query % GRID)
}
