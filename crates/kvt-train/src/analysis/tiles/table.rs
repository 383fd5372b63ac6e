//! What is kept together as CSV, JSON, and rows of a table, beside what chance gives.

use serde_json::{Value, json};

use super::{SIZES, Together, WIDTHS};
use crate::analysis::{Estimate, Layer, Measure};
use crate::table::{Table, cells, or_empty};

/// The columns of [`rows`].
pub const HEADER: [&str; 9] = [
    "layer",
    "k of n keys",
    "queries of a tile",
    "keys they keep together",
    "at random",
    "16-key blocks touched",
    "64-key blocks touched",
    "keys two heads share",
    "at random",
];

/// The tiles of one size in a layer that drops keys.
pub(super) struct Tile<'a> {
    pub(super) layer: &'a Layer,
    pub(super) keys: f64,
    pub(super) kept: f64,
    pub(super) size: usize,
    pub(super) union: Estimate,
}

impl<'a> Tile<'a> {
    /// The tiles of a layer; none if it keeps all keys, or has fewer queries than the smallest tile.
    pub(super) fn of(layer: &'a Layer) -> impl Iterator<Item = Self> {
        let keys = layer.together.get(&Together::Keys);
        let of_size = move |size| {
            let keys = keys?.mean;
            let kept = layer.get(Measure::Kept)?.mean;
            let union = *layer.together.get(&Together::Union(size))?;
            // A mean of whole numbers is exact but for rounding.
            (kept < keys * (1.0 - 1e-6)).then_some(Self {
                layer,
                keys,
                kept,
                size,
                union,
            })
        };
        SIZES.into_iter().filter_map(of_size)
    }

    /// The number of its layer, as a place in a figure.
    pub(super) fn number(&self) -> f64 {
        self.layer.number as f64
    }

    /// The share of all keys that independent random sets of as many keys have together.
    pub(super) fn random_share(&self) -> f64 {
        1.0 - (1.0 - self.kept / self.keys).powf(self.size as f64)
    }

    /// The share of the blocks of so many keys that the tile touches.
    pub(super) fn blocks(&self, width: usize) -> Option<Estimate> {
        let name = Together::Blocks(self.size, width);
        self.layer.together.get(&name).copied()
    }

    /// The share of kept keys that two heads have in common.
    pub(super) fn heads(&self) -> Option<Estimate> {
        self.layer.together.get(&Together::Heads).copied()
    }
}

/// A row for each size of a tile in each layer that drops keys, with means and standard errors.
pub fn csv(layers: &[Layer]) -> String {
    let header = "layer,stage,block,images,keys,kept,tile,union_random,heads_random,union,union_se,blocks_16,blocks_16_se,\
                  blocks_64,blocks_64_se,heads,heads_se";
    let rows = layers.iter().flat_map(Tile::of).map(|tile| {
        let block = tile.layer.block;
        let place = cells([
            &tile.layer.number,
            &block.stage,
            &block.block,
            &tile.union.images,
            &tile.keys,
            &tile.kept,
            &tile.size,
            &(tile.keys * tile.random_share()),
            &(tile.kept / tile.keys),
        ]);
        let [narrow, wide] = WIDTHS.map(|width| tile.blocks(width));
        let numbers = [Some(tile.union), narrow, wide, tile.heads()];
        let numbers = numbers.into_iter().flat_map(|found| {
            let error = found.and_then(|found| found.error);
            [found.map(|found| found.mean), error].map(or_empty)
        });
        place.into_iter().chain(numbers).collect::<Vec<_>>()
    });
    Table::new(header.split(','), rows).csv()
}

/// The tiles of a layer, means only.
pub(in crate::analysis) fn json(layer: &Layer) -> Value {
    let tiles = Tile::of(layer).map(|tile| {
        let [narrow, wide] = WIDTHS.map(|width| tile.blocks(width).map(|found| found.mean));
        json!({
            "tile": tile.size,
            "keys": tile.keys,
            "union": tile.union.mean,
            "union_random": tile.keys * tile.random_share(),
            "blocks_16": narrow,
            "blocks_64": wide,
            "heads": tile.heads().map(|found| found.mean),
            "heads_random": tile.kept / tile.keys,
        })
    });
    tiles.collect()
}

/// The same rows for readers, under [`HEADER`].
pub fn rows(layers: &[Layer]) -> Vec<Vec<String>> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let or_dash =
        |found: Option<Estimate>| found.map_or_else(|| "-".to_owned(), |found| percent(found.mean));
    let row = |tile: Tile<'_>| {
        let union = tile.union.mean;
        vec![
            tile.layer.number.to_string(),
            format!("{:.1} of {}", tile.kept, tile.keys),
            tile.size.to_string(),
            format!("{union:.1} ({})", percent(union / tile.keys)),
            percent(tile.random_share()),
            or_dash(tile.blocks(16)),
            or_dash(tile.blocks(64)),
            or_dash(tile.heads()),
            percent(tile.kept / tile.keys),
        ]
    };
    layers.iter().flat_map(Tile::of).map(row).collect()
}
