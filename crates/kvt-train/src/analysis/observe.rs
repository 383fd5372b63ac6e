//! Reduces the tensors of blocks to one number per measure and image, and accumulates these numbers over batches.

use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::tensor::Tensor;
use kvt_models::{Ask, Backbone, BlockIndex, Observer, Point, Precision, Prefix};
use kvt_ops::Phase;

use super::tiles::{Together, together};
use super::{
    Layer, Measure, Moments, between_patches, cosine_similarity, deviations, distances, map_grid,
    nonlocality, ratios, renormalized,
};
use crate::error::TrainError;
use crate::knn_vote::read;

/// Accumulates the measures of a model's blocks over batches of images.
#[derive(Debug, Default)]
pub struct Analyzer {
    moments: BTreeMap<(BlockIndex, Quantity), Moments>,
    has_tiles: bool,
}

/// What is measured of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Quantity {
    Measure(Measure),
    Together(Together),
}

impl Analyzer {
    /// An analyzer that also measures what queries and heads keep together.
    pub fn with_tiles() -> Self {
        Self {
            has_tiles: true,
            ..Self::default()
        }
    }

    /// Runs a backbone without autodiff on images `[batch, 3, height, width]`, and adds the measures of its blocks. One transfer
    /// reads a mean and a sum of squares for each measure of each block from the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn add(
        &mut self,
        backbone: &impl Backbone,
        precision: Precision,
        images: Tensor<4>,
    ) -> Result<(), TrainError> {
        let [count, _, height, width] = images.dims();
        if count == 0 {
            return Ok(());
        }
        let watcher = Watcher {
            images: count,
            size: [height, width],
            has_tiles: self.has_tiles,
            state: RefCell::default(),
        };
        let ask = Ask {
            observer: Some(&watcher),
            precision,
            ..Ask::default()
        };
        let _ = backbone.features(images, &ask, Phase::Eval);
        let values = watcher.state.into_inner().values;
        let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        if values.is_empty() {
            return Ok(());
        }
        // `[measures, images]`
        let values = Tensor::<1>::stack::<2>(values, 0);
        let means = values.clone().mean_dim(1);
        let squares = (values - means.clone()).square().sum_dim(1);
        let sums = read(Tensor::cat(vec![means, squares], 1))?;
        for (name, sums) in names.into_iter().zip(sums.chunks_exact(2)) {
            if let [mean, squares] = *sums {
                let batch = Moments::new(count as u64, f64::from(mean), f64::from(squares));
                self.moments.entry(name).or_default().merge(batch);
            }
        }
        Ok(())
    }

    /// The layers, from the image to the head.
    pub fn layers(&self) -> Vec<Layer> {
        let mut layers: Vec<Layer> = Vec::new();
        for (&(block, quantity), moments) in &self.moments {
            let Some(estimate) = moments.estimate() else {
                continue;
            };
            if layers.last().is_none_or(|layer| layer.block != block) {
                layers.push(Layer {
                    number: layers.len() + 1,
                    block,
                    measures: BTreeMap::new(),
                    together: BTreeMap::new(),
                });
            }
            if let Some(layer) = layers.last_mut() {
                match quantity {
                    Quantity::Measure(measure) => layer.measures.insert(measure, estimate),
                    Quantity::Together(name) => layer.together.insert(name, estimate),
                };
            }
        }
        layers
    }
}

/// Measures one batch.
struct Watcher {
    images: usize,
    /// Height and width of the images.
    size: [usize; 2],
    has_tiles: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The stream that entered the current branch.
    stream: Option<Tensor<3>>,
    /// `[images]` each.
    values: Vec<((BlockIndex, Quantity), Tensor<1>)>,
    /// Distances between patches, by the rows and columns of their map.
    distances: BTreeMap<[usize; 2], Tensor<2>>,
}

impl Watcher {
    fn note(&self, block: BlockIndex, measure: Measure, values: Tensor<1>) {
        self.record(block, Quantity::Measure(measure), values);
    }

    /// Records values, averaged over each image: in a TNT an image has one value per patch.
    fn record(&self, block: BlockIndex, quantity: Quantity, values: Tensor<1>) {
        let count = values.dims()[0];
        if !count.is_multiple_of(self.images) {
            return;
        }
        let each = [self.images, count / self.images];
        let values = values.reshape(each).mean_dim(1).reshape([self.images]);
        self.state
            .borrow_mut()
            .values
            .push(((block, quantity), values));
    }

    /// The ratios of a branch's output to the stream that entered it.
    fn branch(&self, block: BlockIndex, output: Tensor<3>, prefix: Prefix, measures: [Measure; 3]) {
        let stream = self.state.borrow().stream.clone();
        // All tokens may enter an attention that outputs only the class token.
        let Some(stream) = stream.filter(|stream| stream.dims() == output.dims()) else {
            return;
        };
        let found = ratios(output, stream, prefix.tokens);
        for (measure, values) in measures.into_iter().zip(found) {
            if let Some(values) = values {
                self.note(block, measure, values);
            }
        }
    }
}

impl Observer for Watcher {
    fn wants(&self, _: BlockIndex, _: Point) -> bool {
        true
    }

    fn tokens(&self, block: BlockIndex, point: Point, tokens: Tensor<3>, prefix: Prefix) {
        match point {
            Point::Input | Point::Middle => self.state.borrow_mut().stream = Some(tokens),
            Point::Attention => self.branch(
                block,
                tokens,
                prefix,
                [
                    Measure::AttentionRatio,
                    Measure::AttentionRatioPatches,
                    Measure::AttentionRatioWhole,
                ],
            ),
            Point::Mlp => self.branch(
                block,
                tokens,
                prefix,
                [
                    Measure::MlpRatio,
                    Measure::MlpRatioPatches,
                    Measure::MlpRatioWhole,
                ],
            ),
            Point::Output => {
                let patches = tokens.dims()[1].saturating_sub(prefix.tokens);
                let behind =
                    (patches > 0).then(|| tokens.clone().narrow(1, prefix.tokens, patches));
                if let Some(values) = behind.and_then(cosine_similarity) {
                    self.note(block, Measure::CosinePatches, values);
                }
                if let Some(values) = cosine_similarity(tokens) {
                    self.note(block, Measure::Cosine, values);
                }
            }
            Point::Probabilities => {}
        }
    }

    fn probabilities(&self, block: BlockIndex, weights: Tensor<4>, prefix: Prefix) {
        for (measure, values) in deviations(weights.clone()) {
            self.note(block, measure, values);
        }
        let [_, _, queries, keys] = weights.dims();
        if self.has_tiles {
            let stream = self.state.borrow().stream.clone();
            // Within windows there are more tokens than queries.
            let has_heads = stream.is_some_and(|stream| stream.dims()[1] == queries);
            for (name, values) in together(weights.clone(), has_heads) {
                self.record(block, Quantity::Together(name), values);
            }
        }
        // Otherwise the keys are not the patches, but summaries of them.
        let grid = map_grid(keys, prefix.tokens, self.size);
        let Some(grid) = grid.filter(|_| queries == keys) else {
            return;
        };
        let device = weights.device();
        let distances = {
            let mut state = self.state.borrow_mut();
            let all = &mut state.distances;
            let found = all.entry(grid).or_insert_with(|| distances(grid, &device));
            found.clone()
        };
        let raw = between_patches(weights, prefix.tokens);
        let of_image = |weights| {
            let heads = nonlocality(weights, distances.clone());
            let images = heads.dims()[0];
            heads.mean_dim(1).reshape([images])
        };
        self.note(block, Measure::NonlocalityRaw, of_image(raw.clone()));
        self.note(block, Measure::Nonlocality, of_image(renormalized(raw)));
    }
}
