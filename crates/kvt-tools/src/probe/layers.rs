//! Where the tokens of an image attend, block by block: the attention of the class token, or the mean over all patches.

use std::cell::RefCell;

use burn::tensor::Tensor;
use kvt_models::{Ask, Backbone, BlockIndex, Model, Observer, Point, Prefix};
use kvt_ops::Phase;

use super::attention::{HeadMap, NoMap};
use kvt_train::analysis::map_grid;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::read;

/// The blocks whose maps are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// The last one that has maps.
    #[default]
    Last,
    /// All that have maps.
    All,
    /// One, counted from 1 in the order in which images pass them.
    One(usize),
}

/// Whose attention a map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looking {
    /// The class token.
    ClassToken,
    /// The mean over all patches, if there is no class token before them; registers look for no class.
    AllPatches,
}

/// The maps of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerMaps {
    /// Its number, from 1.
    pub layer: usize,
    /// Whose attention it is.
    pub looking: Looking,
    /// The maps of each image, one for each head.
    pub maps: Vec<Vec<HeadMap>>,
}

/// What a block has reported.
struct Seen {
    block: BlockIndex,
    /// How many sequences enter it, and the tokens of each.
    input: [usize; 2],
    weights: Result<Row, NoMap>,
}

/// The row of the probabilities that is drawn.
struct Row {
    looking: Looking,
    /// `[batch, heads, 1, patches]`.
    weights: Tensor<4>,
    /// Rows and columns of patches.
    grid: [usize; 2],
}

/// Observes all blocks, and keeps one row per head of each attention.
struct Rows {
    /// Images.
    batch: usize,
    /// Their height and width.
    size: [usize; 2],
    seen: RefCell<Vec<Seen>>,
}

impl Observer for Rows {
    fn wants(&self, _: BlockIndex, point: Point) -> bool {
        matches!(point, Point::Input | Point::Probabilities)
    }

    fn tokens(&self, block: BlockIndex, point: Point, tokens: Tensor<3>, _: Prefix) {
        if point == Point::Input {
            let [batch, count, _] = tokens.dims();
            self.seen.borrow_mut().push(Seen {
                block,
                input: [batch, count],
                weights: Err(NoMap::NoProbabilities),
            });
        }
    }

    fn probabilities(&self, block: BlockIndex, probabilities: Tensor<4>, prefix: Prefix) {
        let mut seen = self.seen.borrow_mut();
        // A block reports between its own input and the next block's; inner blocks report before the outer one continues.
        if let Some(seen) = seen.iter_mut().rev().find(|seen| seen.block == block) {
            seen.weights = self.row(probabilities, prefix, seen.input);
        }
    }
}

impl Rows {
    /// Extracts the row to draw from `[batch, heads, query, key]`.
    fn row(
        &self,
        probabilities: Tensor<4>,
        prefix: Prefix,
        [sequences, tokens]: [usize; 2],
    ) -> Result<Row, NoMap> {
        let [count, _, queries, keys] = probabilities.dims();
        if count != self.batch || sequences != self.batch || queries != tokens {
            return Err(NoMap::Parts);
        }
        let before = prefix.tokens;
        let grid = map_grid(keys, before, self.size).ok_or(NoMap::NoGrid)?;
        let (looking, row) = if prefix.has_class_token() {
            (Looking::ClassToken, probabilities.narrow(2, 0, 1))
        } else {
            let patches = queries.checked_sub(before).filter(|count| *count > 0);
            let patches = probabilities.narrow(2, before, patches.ok_or(NoMap::NoGrid)?);
            (Looking::AllPatches, patches.mean_dim(2))
        };
        Ok(Row {
            looking,
            weights: row.narrow(3, before, keys - before),
            grid,
        })
    }
}

/// The maps of each head of some blocks, for images `[batch, 3, height, width]`.
///
/// # Errors
/// If the device fails; the inner result is an error if there is no such block, or none of the chosen ones has a map.
pub fn attention_maps(
    model: &Model,
    images: Tensor<4>,
    which: Layers,
) -> Result<Result<Vec<LayerMaps>, NoMap>, TrainError> {
    let [batch, _, height, width] = images.dims();
    let rows = Rows {
        batch,
        size: [height, width],
        seen: RefCell::default(),
    };
    let ask = Ask {
        observer: Some(&rows),
        precision: model.precision(),
        ..Ask::default()
    };
    let _ = model.backbone.features(images, &ask, Phase::Eval);
    let seen = rows.seen.into_inner();
    let blocks = seen.len();
    // If no block has maps, the last one gives the reason.
    let last = seen.iter().rposition(|seen| seen.weights.is_ok());
    let is_chosen = |layer: usize, seen: &Seen| match which {
        Layers::Last => layer == last.map_or(blocks, |place| place + 1),
        Layers::All => seen.weights.is_ok() || last.is_none(),
        Layers::One(one) => layer == one,
    };
    let mut all = Vec::new();
    for (layer, seen) in (1..).zip(seen) {
        if !is_chosen(layer, &seen) {
            continue;
        }
        let row = match seen.weights {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        all.push(LayerMaps {
            layer,
            looking: row.looking,
            maps: maps(row)?,
        });
    }
    if all.is_empty() {
        return Ok(Err(NoMap::NoSuchLayer(blocks)));
    }
    Ok(Ok(all))
}

/// Splits a row by image and by head.
fn maps(row: Row) -> Result<Vec<Vec<HeadMap>>, TrainError> {
    let [_, heads, _, patches] = row.weights.dims();
    let weights = read(row.weights)?;
    let maps = weights.chunks_exact(patches).map(|weights| HeadMap {
        grid: row.grid,
        kept: weights.iter().filter(|weight| **weight > 0.0).count(),
        weights: weights.iter().copied().map(f64::from).collect(),
    });
    let maps: Vec<HeadMap> = maps.collect();
    Ok(maps.chunks(heads).map(<[HeadMap]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::{Device, Shape, TensorData};

    use super::*;

    fn tensor(values: &[f32], shape: [usize; 4]) -> Tensor<4> {
        let data = TensorData::new(values.to_vec(), Shape::new(shape));
        Tensor::from_data(data, &Device::flex())
    }

    fn prefix(tokens: usize, registers: usize) -> Prefix {
        Prefix { tokens, registers }
    }

    fn row(
        probabilities: Tensor<4>,
        prefix: Prefix,
        input: [usize; 2],
        size: [usize; 2],
    ) -> Result<Row, NoMap> {
        let rows = Rows {
            batch: 1,
            size,
            seen: RefCell::default(),
        };
        rows.row(probabilities, prefix, input)
    }

    /// By hand: the mean over all patches, and the row of the class token without its own column. A register is not taken for a class
    /// token: the mean is over the patches behind it. The image tells the rows from the columns.
    #[test]
    fn the_row_that_is_drawn() {
        let values: Vec<f32> = (0..25_u8).map(f32::from).collect();
        let drawn = |shape: [usize; 4], prefix, size| {
            let count: usize = shape.iter().product();
            let found = row(tensor(&values[..count], shape), prefix, [1, shape[2]], size);
            let found = found.unwrap();
            (found.looking, read(found.weights).unwrap(), found.grid)
        };
        let (patches, class) = (Looking::AllPatches, Looking::ClassToken);
        let (square, wide) = ([8, 8], [4, 16]);
        assert_eq!(
            drawn([1, 1, 4, 4], prefix(0, 0), square),
            (patches, vec![6.0, 7.0, 8.0, 9.0], [2, 2])
        );
        assert_eq!(
            drawn([1, 1, 4, 4], prefix(0, 0), wide),
            (patches, vec![6.0, 7.0, 8.0, 9.0], [1, 4])
        );
        assert_eq!(
            drawn([1, 1, 5, 5], prefix(1, 0), square),
            (class, vec![1.0, 2.0, 3.0, 4.0], [2, 2])
        );
        assert_eq!(
            drawn([1, 1, 5, 5], prefix(1, 1), square),
            (patches, vec![13.5, 14.5, 15.5, 16.5], [2, 2])
        );
        // Class attention has one query. Here two tokens come before the patches.
        assert_eq!(
            drawn([1, 1, 1, 6], prefix(2, 0), square),
            (class, vec![2.0, 3.0, 4.0, 5.0], [2, 2])
        );
    }

    #[test]
    fn what_is_no_map_is_told() {
        let of = |shape: [usize; 4], input| {
            let values = vec![0.0; shape.iter().product()];
            row(tensor(&values, shape), prefix(0, 0), input, [16, 16]).map(|_| ())
        };
        // Windows of 4 among 16 tokens; the patches of one image as 4 sequences; 8 keys.
        assert_eq!(of([1, 4, 4, 4], [1, 16]), Err(NoMap::Parts));
        assert_eq!(of([4, 1, 4, 4], [4, 4]), Err(NoMap::Parts));
        assert_eq!(of([1, 1, 8, 8], [1, 8]), Err(NoMap::NoGrid));
        // Fewer keys than queries, as after a convolution.
        assert_eq!(of([1, 1, 16, 4], [1, 16]), Ok(()));
    }
}
