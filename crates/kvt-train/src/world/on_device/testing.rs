//! A scripted engine in host memory, for tests.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;
use kvt_testing::ranks::Rank;

use super::{Engine, EngineError};

/// The behaviour of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Sums, and reports that it is done after this many polls.
    Sums(usize),
    /// Sums at once, but with a wrong last bucket.
    SumsWrong,
    /// Takes this many buckets and fails at the next one.
    FailsAfter(usize),
    /// Fails when polled.
    FailsLater,
    /// Is never done, as if another process did not join in.
    Hangs,
}

/// The calls of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The lengths of the buckets, in order.
    pub(crate) buckets: Vec<usize>,
    /// How often sums were started.
    pub(crate) starts: usize,
    /// How often it was polled.
    pub(crate) polls: usize,
    /// Whether it was aborted.
    pub(crate) aborted: bool,
}

/// The engine of one of several threads.
#[derive(Debug)]
pub(crate) struct Fake {
    rank: Rank,
    does: Does,
    asked: Arc<Mutex<Asked>>,
    prepared: Vec<Tensor<1>>,
}

impl Fake {
    pub(crate) fn new(rank: Rank, does: Does) -> (Self, Arc<Mutex<Asked>>) {
        let asked: Arc<Mutex<Asked>> = Arc::default();
        let fake = Self {
            rank,
            does,
            asked: Arc::clone(&asked),
            prepared: Vec::new(),
        };
        (fake, asked)
    }
}

/// The calls of an engine so far.
pub(crate) fn asked(of: &Mutex<Asked>) -> Asked {
    of.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn broken<T>() -> Result<T, EngineError> {
    Err(EngineError {
        library: "fake",
        reason: "a cable is loose".to_owned(),
    })
}

impl Fake {
    fn log(&self, note: impl FnOnce(&mut Asked)) -> Asked {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut asked);
        asked.clone()
    }

    /// The sum of a bucket over the processes, which must all call this.
    fn sum(&self, bucket: Tensor<1>) -> Vec<f32> {
        let mut values = bucket.into_data().try_to_vec::<f32>().unwrap_or_default();
        self.rank.sum(&mut values);
        values
    }
}

impl Engine for Fake {
    fn prepare(&mut self, buckets: &mut dyn Iterator<Item = Tensor<1>>) -> Result<(), EngineError> {
        for (number, bucket) in buckets.enumerate() {
            self.log(|asked| asked.buckets.push(bucket.dims()[0]));
            if self.does == Does::FailsAfter(number) {
                return broken();
            }
            self.prepared.push(bucket);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), EngineError> {
        self.log(|asked| asked.starts += 1);
        if !matches!(self.does, Does::Sums(_) | Does::SumsWrong) {
            return Ok(());
        }
        let prepared = std::mem::take(&mut self.prepared);
        let count = prepared.len();
        for (number, bucket) in (1..).zip(prepared) {
            let device = bucket.device();
            let mut values = self.sum(bucket);
            if let (Does::SumsWrong, true, Some(value)) =
                (&self.does, number == count, values.last_mut())
            {
                *value += 1.0;
            }
            let sum = Tensor::from_data(values.as_slice(), &device);
            self.prepared.push(sum);
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<bool, EngineError> {
        let asked = self.log(|asked| asked.polls += 1);
        match self.does {
            Does::Sums(after) => Ok(asked.polls >= after),
            Does::SumsWrong => Ok(true),
            Does::FailsLater => broken(),
            Does::FailsAfter(_) | Does::Hangs => Ok(false),
        }
    }

    fn take(&mut self) -> Vec<Tensor<1>> {
        std::mem::take(&mut self.prepared)
    }

    fn abort(&mut self) {
        self.log(|asked| asked.aborted = true);
    }
}
