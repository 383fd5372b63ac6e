//! The CubeCL kernel of unfold and fold: one output element per thread.

use cubecl::prelude::*;

/// The sizes of an image, and the movement of windows over it.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Windows {
    pub height: u32,
    pub width: u32,
    /// Rows of positions.
    pub rows: u32,
    /// Columns of positions.
    pub columns: u32,
    /// Side of a window.
    pub kernel: u32,
    pub stride: u32,
    pub padding: u32,
}

/// With `fold`, each pixel of an image, otherwise each value of a column.
#[cube(launch, address_type = "dynamic")]
pub(super) fn windows_kernel<F: Float>(
    x: &Tensor<F>,
    out: &mut Tensor<F>,
    windows: Windows,
    count: u32,
    #[comptime] fold: bool,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count as usize {
        terminate!();
    }
    if comptime!(fold) {
        out[i] = folded::<F>(x, i, &windows);
    } else {
        out[i] = unfolded::<F>(x, i, &windows);
    }
}

/// Value number `i` of the columns.
#[cube]
fn unfolded<F: Float>(x: &Tensor<F>, i: usize, windows: &Windows) -> F {
    let (height, width) = (windows.height as usize, windows.width as usize);
    let (rows, columns) = (windows.rows as usize, windows.columns as usize);
    let (kernel, stride) = (windows.kernel as usize, windows.stride as usize);
    let padding = windows.padding as usize;
    let position = i % (rows * columns);
    // Channel of an image, row of a window, pixel of that row.
    let line = i / (rows * columns);
    let channel = line / (kernel * kernel);
    // In the padded image.
    let row = position / columns * stride + line / kernel % kernel;
    let column = position % columns * stride + line % kernel;
    let mut value = F::cast_from(0.0f32);
    let in_row = row >= padding && row < height + padding;
    if in_row && column >= padding && column < width + padding {
        value = x[(channel * height + row - padding) * width + column - padding];
    }
    value
}

/// Pixel number `i` of the images. A gather: it sums the values of the windows that cover it, so no two threads write to the same
/// address.
#[cube]
fn folded<F: Float>(x: &Tensor<F>, i: usize, windows: &Windows) -> F {
    let (height, width) = (windows.height as usize, windows.width as usize);
    let (rows, columns) = (windows.rows as usize, windows.columns as usize);
    let (kernel, stride) = (windows.kernel as usize, windows.stride as usize);
    // In the padded image.
    let row = i / width % height + windows.padding as usize;
    let column = i % width + windows.padding as usize;
    let channel = i / (width * height);
    let mut sum = 0.0f32;
    for down in 0..kernel {
        if row >= down {
            let position_row = (row - down) / stride;
            if position_row * stride + down == row && position_row < rows {
                let line = (channel * kernel + down) * kernel;
                for right in 0..kernel {
                    if column >= right {
                        let position = (column - right) / stride;
                        if position * stride + right == column && position < columns {
                            let at = (line + right) * rows + position_row;
                            sum += f32::cast_from(x[at * columns + position]);
                        }
                    }
                }
            }
        }
    }
    F::cast_from(sum)
}
