//! The gradient of the image of a convolution as a convolution.

use burn::tensor::Shape;

use super::Geometry;
use crate::conv::Settings;
use crate::window::Window;

impl Settings {
    /// The convolution that makes the gradient of the image from that of the output, if windows move pixel by pixel and there are
    /// about as many positions as pixels. It adds no columns to pixels, which takes longer than to copy pixels to columns.
    pub(super) fn backwards(self) -> Option<Self> {
        let Window {
            kernel,
            stride,
            padding,
        } = self.window;
        let room = kernel.checked_sub(1 + padding)?;
        let window = Window {
            padding: room,
            ..self.window
        };
        let is_same = 2 * padding + 1 >= kernel;
        (stride == 1 && kernel > 1 && is_same).then_some(Self { window, ..self })
    }
}

impl Geometry {
    /// Whether that convolution has columns of about as many inputs as this one, and is not one of single channels.
    pub(super) fn is_reversible(&self) -> bool {
        !self.is_depthwise() && self.outputs <= 2 * self.inputs
    }

    /// The kernels of the convolution that makes the gradient of the image: with inputs and outputs exchanged, and turned by 180 degrees.
    pub(super) fn flipped(&self, weight: &[f32]) -> (Vec<f32>, Shape) {
        let (inputs, outputs, area) = (self.inputs, self.outputs, self.windows.area());
        let mut flipped = Vec::with_capacity(weight.len());
        for of_group in weight.chunks_exact((outputs * inputs * area).max(1)) {
            for input in 0..inputs {
                for of_output in of_group.chunks_exact(inputs * area) {
                    let kernel = &of_output[input * area..][..area];
                    flipped.extend(kernel.iter().rev());
                }
            }
        }
        let size = self.windows.size;
        let shape = Shape::new([self.groups * inputs, outputs, size, size]);
        (flipped, shape)
    }
}
