//! From host to device: the last step of the data on the host.

use burn::tensor::{Device, Tensor, TensorData};

use super::{Batch, View};

/// A batch on a device, with views `[n, channels, height, width]`.
pub type DeviceBatch<T = u32> = Batch<T, Tensor<4>>;

impl View {
    /// The pixels as `[n, channels, height, width]`. They are moved, not copied: a view can take hundreds of megabytes.
    pub fn into_data(self) -> TensorData {
        let shape = self.shape();
        TensorData::new(self.pixels, shape)
    }

    /// The view on a device, `[n, channels, height, width]`.
    pub fn upload(self, device: &Device) -> Tensor<4> {
        Tensor::from_data(self.into_data(), device)
    }
}

impl<T> Batch<T> {
    /// The batch on a device.
    pub fn upload(self, device: &Device) -> DeviceBatch<T> {
        let views = self.views.into_iter();
        DeviceBatch {
            views: views.map(|view| view.upload(device)).collect(),
            targets: self.targets,
            indices: self.indices,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn view() -> View {
        let pixels: Vec<f32> = (0..2 * 3 * 4 * 5).map(|x| x as f32).collect();
        View::whole(pixels, 3, (4, 5))
    }

    /// The numbers are not moved in memory, on the CPU even within the tensor.
    #[test]
    fn pixels_are_moved() {
        let view = view();
        let place = view.pixels.as_ptr();
        let data = view.into_data();
        assert_eq!(data.as_slice::<f32>().unwrap().as_ptr(), place);
        let data = Tensor::<4>::from_data(data, &Device::flex()).into_data();
        assert_eq!(data.as_slice::<f32>().unwrap().as_ptr(), place);
    }

    #[test]
    fn numbers_and_their_order_are_kept() {
        let batch = Batch {
            views: vec![view(), View::whole(vec![0.0; 6], 3, (1, 1))],
            targets: vec![7, 8],
            indices: vec![3, 1],
        };
        let expected = batch.views[0].pixels.clone();
        let batch = batch.upload(&Device::flex().autodiff());
        assert_eq!(batch.views[0].dims(), [2, 3, 4, 5]);
        assert_eq!(batch.views[1].dims(), [2, 3, 1, 1]);
        let found = batch.views[0].to_data().try_to_vec::<f32>().unwrap();
        assert_eq!(found, expected);
        assert_eq!((batch.targets, batch.indices), (vec![7, 8], vec![3, 1]));
    }
}
