//! Numbers that the host reads while the device goes on.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use burn::tensor::{Device, Tensor, TensorData};

use super::UpdateError;

/// Reads tensors on a thread beside the one that hands work to the device.
///
/// On a GPU a tensor is copied behind all that was handed to the device when somebody first looks at it. This thread looks
/// at once, and waits; who asked does not.
#[derive(Debug)]
pub struct Reader(Sender<Request>);

/// A tensor, and who wants its numbers.
type Request = (TensorData, Sender<Result<Vec<f64>, UpdateError>>);

/// Numbers on their way.
#[derive(Debug)]
pub(super) struct Reading(Receiver<Result<Vec<f64>, UpdateError>>);

impl Reader {
    /// A reader for a device that works beside the host. On the CPU there is nothing to wait for, and `None`.
    pub fn of(device: &Device) -> Option<Self> {
        match *device == Device::flex() {
            true => None,
            false => Self::start(),
        }
    }

    /// A reader; `None` if the system has no thread left.
    pub fn start() -> Option<Self> {
        let (ask, asked) = channel::<Request>();
        let thread = thread::Builder::new().name("reader".to_owned());
        // It ends with the reader.
        let started = thread.spawn(move || {
            for (data, answer) in asked {
                // Whoever asked may have gone.
                let _ = answer.send(numbers(data));
            }
        });
        started.ok().map(|_| Self(ask))
    }

    /// Begins to read a tensor.
    pub(super) fn read(&self, tensor: Tensor<1>) -> Result<Reading, UpdateError> {
        let data = tensor
            .try_into_data()
            .map_err(|error| UpdateError::Execution(error.to_string()))?;
        let (answer, answered) = channel();
        self.0.send((data, answer)).map_err(|_| lost())?;
        Ok(Reading(answered))
    }
}

impl Reading {
    /// Waits for the numbers.
    pub(super) fn wait(self) -> Result<Vec<f64>, UpdateError> {
        self.0.recv().map_err(|_| lost())?
    }
}

/// The numbers of a tensor, on the host.
pub(super) fn read(tensor: Tensor<1>) -> Result<Vec<f64>, UpdateError> {
    let data = tensor
        .try_into_data()
        .map_err(|error| UpdateError::Execution(error.to_string()))?;
    numbers(data)
}

fn numbers(data: TensorData) -> Result<Vec<f64>, UpdateError> {
    data.convert::<f64>()
        .try_to_vec()
        .map_err(|error| UpdateError::Execution(format!("{error:?}")))
}

/// A device that fails while it is read ends the thread.
fn lost() -> UpdateError {
    UpdateError::Execution("its numbers cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn readings_come_in_any_order() {
        let reader = Reader::start().unwrap();
        let tensor = |x: f32| Tensor::from_data([x, 2.0 * x], &Device::flex());
        let [first, second] = [1.0, 3.0].map(|x| reader.read(tensor(x)).unwrap());
        assert_eq!(second.wait().unwrap(), [3.0, 6.0]);
        drop(reader);
        assert_eq!(first.wait().unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn the_cpu_needs_none() {
        assert!(Reader::of(&Device::flex()).is_none());
        assert!(Reader::of(&Device::flex().autodiff()).is_none());
    }
}
