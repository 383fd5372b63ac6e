//! An engine in host memory for tests, which does as it is told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use kvt_testing::ranks::Rank;

use super::{Engine, EngineError};

/// What an engine does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Sums, and says that it is done so much later.
    Sums(Duration),
    /// The same, with results that are not the sums.
    SumsWrong,
    /// Starts this many buckets and fails at the next.
    FailsAfter(usize),
    /// Fails when it is asked whether it is done.
    FailsLater,
    /// Is never done, as where another process does not join in.
    Hangs,
}

/// What was asked of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The lengths of the buckets, in their order.
    pub(crate) buckets: Vec<usize>,
    /// Whether it was to give up.
    pub(crate) aborted: bool,
}

/// An engine of one of several threads.
#[derive(Debug)]
pub(crate) struct Fake {
    rank: Rank,
    does: Does,
    asked: Arc<Mutex<Asked>>,
    last: Instant,
}

impl Fake {
    pub(crate) fn new(rank: Rank, does: Does) -> (Self, Arc<Mutex<Asked>>) {
        let asked: Arc<Mutex<Asked>> = Arc::default();
        let fake = Self {
            rank,
            does,
            asked: Arc::clone(&asked),
            last: Instant::now(),
        };
        (fake, asked)
    }
}

/// What an engine was asked so far.
pub(crate) fn asked(of: &Mutex<Asked>) -> Asked {
    of.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn broken<T>() -> Result<T, EngineError> {
    Err(EngineError {
        library: "fake",
        reason: "a cable is loose".to_owned(),
    })
}

impl Engine for Fake {
    fn start(&mut self, bucket: Tensor<1>) -> Result<Tensor<1>, EngineError> {
        let number = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.buckets.push(bucket.dims()[0]);
            asked.buckets.len()
        };
        self.last = Instant::now();
        match self.does {
            Does::FailsAfter(count) if number > count => broken(),
            Does::Sums(_) | Does::SumsWrong => {
                let device = bucket.device();
                let mut values = bucket.into_data().try_to_vec::<f32>().unwrap_or_default();
                self.rank.sum(&mut values);
                if let (Does::SumsWrong, Some(value)) = (&self.does, values.last_mut()) {
                    *value += 1.0;
                }
                Ok(Tensor::from_data(values.as_slice(), &device))
            }
            _ => Ok(bucket),
        }
    }

    fn poll(&mut self) -> Result<bool, EngineError> {
        match self.does {
            Does::Sums(after) => Ok(self.last.elapsed() >= after),
            Does::SumsWrong => Ok(true),
            Does::FailsLater => broken(),
            Does::FailsAfter(_) | Does::Hangs => Ok(false),
        }
    }

    fn abort(&mut self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.aborted = true;
    }
}
