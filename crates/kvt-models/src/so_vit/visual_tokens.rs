//! From images to tokens: a stem, and bottlenecks as in a ResNet.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::{Phase, Window, max_pool2d, widened};

use super::SoVitConfig;
use crate::layers::{BatchNorm, BatchNormSettings, Conv2d, ConvSettings, Init, to_tokens};

/// Channels of the stem, and of the middle of a bottleneck.
const WIDTH: usize = 64;
/// Channels after a bottleneck.
const WIDE: usize = 4 * WIDTH;
/// The settings of the three batch norms in the trunk of a bottleneck; the norm of its shortcut differs.
const TRUNK_NORM: BatchNormSettings = BatchNormSettings {
    epsilon: 1e-3,
    momentum: 0.01,
};
/// The pooling after the stem.
const POOL: Window = Window {
    kernel: 3,
    stride: 2,
    padding: 1,
};

/// One of the bottlenecks.
#[derive(Clone, Copy, Debug)]
struct BottleneckSize {
    in_channels: usize,
    stride: usize,
}

/// A convolution of a bottleneck, which has no bias.
fn conv(channels: [usize; 2], kernel: usize, stride: usize) -> ConvSettings {
    ConvSettings::centred(channels, kernel, stride).without_bias()
}

impl BottleneckSize {
    fn trunk(self) -> [ConvSettings; 3] {
        [
            conv([self.in_channels, WIDTH], 1, 1),
            conv([WIDTH, WIDTH], 3, self.stride),
            conv([WIDTH, WIDE], 1, 1),
        ]
    }

    /// The projection of the shortcut, if channels or size change.
    fn downsample(self) -> Option<ConvSettings> {
        let changes = self.stride != 1 || self.in_channels != WIDE;
        changes.then(|| conv([self.in_channels, WIDE], 1, self.stride))
    }

    /// The convolutions with the sides of the maps that they see, from a map with sides of `size`; each is followed
    /// by a batch norm.
    fn convolutions(self, size: usize) -> impl Iterator<Item = (ConvSettings, usize)> {
        let [first, second, third] = self.trunk();
        let smaller = second.output_size(size);
        let trunk = [(first, size), (second, size), (third, smaller)];
        let shortcut = self.downsample().map(|conv| (conv, size));
        trunk.into_iter().chain(shortcut)
    }
}

/// The sizes of the visual tokens.
impl SoVitConfig {
    fn stem(&self) -> ConvSettings {
        ConvSettings::centred([self.common.in_chans, WIDTH], 3, 1)
    }

    fn transition(&self) -> ConvSettings {
        ConvSettings::centred([WIDE, self.embed_dim], 1, 1)
    }

    /// The bottlenecks with the sides of the maps that they see, and the side of the map after them.
    fn bottlenecks(&self, size: usize) -> (Vec<(BottleneckSize, usize)>, usize) {
        let [mut size, _] = POOL.positions([size; 2]);
        let mut in_channels = WIDTH;
        let bottlenecks = self.strides.iter().map(|&stride| {
            let bottleneck = (
                BottleneckSize {
                    in_channels,
                    stride,
                },
                size,
            );
            size = conv([WIDTH; 2], 3, stride).output_size(size);
            in_channels = WIDE;
            bottleneck
        });
        (bottlenecks.collect(), size)
    }

    /// Tokens along a side of the image.
    pub fn grid_size(&self) -> usize {
        self.bottlenecks(self.common.side()).1
    }

    /// Trainable parameters of the visual tokens, and their multiply-accumulate operations.
    pub(super) fn visual_cost(&self) -> [usize; 2] {
        let side = self.common.side();
        let (bottlenecks, grid) = self.bottlenecks(side);
        let ends = [(self.stem(), side), (self.transition(), grid)]
            .map(|(conv, size)| [conv.params(), conv.macs(size)]);
        let bottlenecks = bottlenecks
            .into_iter()
            .flat_map(|(bottleneck, size)| bottleneck.convolutions(size));
        let between = bottlenecks
            .map(|(conv, size)| [conv.params() + 2 * conv.out_channels, conv.macs(size)]);
        ends.into_iter()
            .chain(between)
            .fold([0; 2], |[params, macs], cost| {
                [params + cost[0], macs + cost[1]]
            })
    }
}

/// The convolutions that make tokens of an image.
#[derive(Module, Debug)]
pub(super) struct VisualTokens {
    tokens: Residual,
}

#[derive(Module, Debug)]
struct Residual {
    /// The original also counts the pooling after it.
    stem: [Conv2d; 1],
    stage: Vec<Bottleneck>,
    transition: Conv2d,
}

/// Three convolutions around a shortcut.
#[derive(Module, Debug)]
struct Bottleneck {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    conv3: Conv2d,
    bn3: BatchNorm,
    /// The layers of the shortcut; `None` if neither channels nor size change.
    downsample: Option<(Conv2d, BatchNorm)>,
}

impl VisualTokens {
    /// With the original's initialisation, which is PyTorch's.
    pub(super) fn new(init: &Init<'_>, config: &SoVitConfig) -> Self {
        let init = init.child("tokens");
        let stage = init.child("stage");
        // No weight depends on the size of the image.
        let (bottlenecks, _) = config.bottlenecks(1);
        let bottlenecks = bottlenecks.into_iter().enumerate();
        Self {
            tokens: Residual {
                stem: [init.child("stem").conv("0", config.stem())],
                stage: bottlenecks
                    .map(|(i, (size, _))| Bottleneck::new(&stage.child(&i.to_string()), size))
                    .collect(),
                transition: init.conv("transition", config.transition()),
            },
        }
    }

    /// The tokens of images of any type, row by row and in f32, and the rows and columns of the map that they form.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, rows * columns, dim]`.
    pub(super) fn forward(&self, images: Tensor<4>, phase: Phase) -> (Tensor<3>, [usize; 2]) {
        let Residual {
            stem: [stem],
            stage,
            transition,
        } = &self.tokens;
        let mut x = max_pool2d(stem.forward(images), POOL);
        for bottleneck in stage {
            x = bottleneck.forward(x, phase);
        }
        let [_, _, rows, columns] = x.dims();
        let tokens = widened(transition.forward_tokens(to_tokens(x)));
        (tokens, [rows, columns])
    }
}

impl Bottleneck {
    fn new(init: &Init<'_>, size: BottleneckSize) -> Self {
        let [first, second, third] = size.trunk();
        let norm = |conv: ConvSettings, settings| init.batch_norm(conv.out_channels, settings);
        let downsample = init.child("downsample");
        Self {
            conv1: init.conv("conv1", first),
            bn1: norm(first, TRUNK_NORM),
            conv2: init.conv("conv2", second),
            bn2: norm(second, TRUNK_NORM),
            conv3: init.conv("conv3", third),
            bn3: norm(third, TRUNK_NORM),
            downsample: size.downsample().map(|settings| {
                let norm = norm(settings, BatchNormSettings::default());
                (downsample.conv("0", settings), norm)
            }),
        }
    }

    fn forward(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        let first = self.bn1.forward_relu(self.conv1.forward(x.clone()), phase);
        let second = self.bn2.forward_relu(self.conv2.forward(first), phase);
        let shortcut = match &self.downsample {
            Some((conv, norm)) => norm.forward(conv.forward(x), phase),
            None => x,
        };
        let third = self.conv3.forward(second);
        self.bn3.forward_add_relu(third, shortcut, phase)
    }
}
