//! Reads numbers to the host while the device continues.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use burn::tensor::{Device, Tensor, TensorData, TensorReadError};

use super::TrainError;

/// Reads tensors on a thread beside the one that submits work to the device.
///
/// On a GPU, a copy to the host is queued behind all work submitted before the data is first accessed. This thread accesses it at
/// once and waits; the caller does not wait.
#[derive(Debug)]
pub struct Reader {
    /// `None` while the reader is being dropped.
    ask: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// A tensor, and the channel for its numbers.
type Request = (TensorData, Sender<Result<Vec<f64>, TrainError>>);

/// Numbers that are still being read.
#[derive(Debug)]
pub(super) struct Reading(Receiver<Result<Vec<f64>, TrainError>>);

impl Reader {
    /// A reader for an asynchronous device. On the CPU there is nothing to wait for: `None`.
    pub fn of(device: &Device) -> Option<Self> {
        if *device == Device::flex() {
            None
        } else {
            Self::start()
        }
    }

    /// A reader; `None` if the system cannot start another thread.
    pub fn start() -> Option<Self> {
        let (ask, asked) = channel::<Request>();
        let thread = thread::Builder::new().name("reader".to_owned());
        let started = thread.spawn(move || {
            for (data, answer) in asked {
                // The receiver may be gone.
                let _ = answer.send(numbers(data));
            }
        });
        started.ok().map(|thread| Self {
            ask: Some(ask),
            thread: Some(thread),
        })
    }

    /// Starts to read a tensor.
    pub(super) fn read(&self, tensor: Tensor<1>) -> Result<Reading, TrainError> {
        let data = tensor.try_into_data().map_err(TensorReadError::from)?;
        let (answer, answered) = channel();
        let ask = self.ask.as_ref().ok_or_else(lost)?;
        ask.send((data, answer)).map_err(|_| lost())?;
        Ok(Reading(answered))
    }
}

impl Drop for Reader {
    /// Finishes pending reads, so that the thread does not outlive the device.
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, waiting for its numbers returns an error.
            let _ = thread.join();
        }
    }
}

impl Reading {
    /// Numbers that are on the host already.
    pub(super) fn known(numbers: Vec<f64>) -> Self {
        let (answer, answered) = channel();
        // The receiver is here.
        let _ = answer.send(Ok(numbers));
        Self(answered)
    }

    /// Waits for the numbers.
    pub(super) fn wait(self) -> Result<Vec<f64>, TrainError> {
        self.0.recv().map_err(|_| lost())?
    }
}

/// The numbers of a tensor, on the host.
pub(super) fn read(tensor: Tensor<1>) -> Result<Vec<f64>, TrainError> {
    Ok(tensor.try_into_vec_as()?)
}

/// The device is read here at the latest, which can fail.
fn numbers(data: TensorData) -> Result<Vec<f64>, TrainError> {
    Ok(data.try_into_vec_as().map_err(TensorReadError::from)?)
}

/// The thread ends if a driver panics while the device is read.
fn lost() -> TrainError {
    TrainError::Execution("its numbers cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::{BoolStore, DType};

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

    /// 7 is not a valid boolean.
    #[test]
    fn a_read_that_fails_is_an_error() {
        let bool = DType::Bool(BoolStore::Native);
        let data = TensorData::from_bytes_vec(vec![7], [1], bool);
        let error = numbers(data.clone()).unwrap_err();
        assert!(matches!(error, TrainError::Execution(_)), "{error}");
        // The thread continues.
        let reader = Reader::start().unwrap();
        let (answer, answered) = channel();
        reader.ask.as_ref().unwrap().send((data, answer)).unwrap();
        let error = Reading(answered).wait().unwrap_err();
        assert!(matches!(error, TrainError::Execution(_)), "{error}");
        let tensor = Tensor::from_data([4.0f32], &Device::flex());
        assert_eq!(reader.read(tensor).unwrap().wait().unwrap(), [4.0]);
    }

    #[test]
    fn a_thread_that_is_gone_is_an_error() {
        let tensor = Tensor::from_data([4.0f32], &Device::flex());
        let (ask, asked) = channel();
        drop(asked);
        let reader = Reader {
            ask: Some(ask),
            thread: None,
        };
        let error = reader.read(tensor).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        let (answer, answered) = channel();
        drop(answer);
        let error = Reading(answered).wait().unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn the_cpu_needs_none() {
        assert!(Reader::of(&Device::flex()).is_none());
        assert!(Reader::of(&Device::flex().autodiff()).is_none());
    }
}
