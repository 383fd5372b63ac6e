//! Processes that train together, as threads of one test.

use std::fmt;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

/// One of several threads that add up numbers.
#[derive(Clone)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    place: Arc<(Barrier, Mutex<Vec<Vec<f32>>>)>,
}

impl Rank {
    /// Replaces each number by its sum over the threads, in their order.
    pub fn sum(&self, values: &mut [f32]) {
        let (barrier, place) = &*self.place;
        place.lock().unwrap_or_else(PoisonError::into_inner)[self.rank] = values.to_vec();
        barrier.wait();
        let all = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (at, value) in values.iter_mut().enumerate() {
            *value = all.iter().map(|of_one| of_one[at]).sum();
        }
        // No rank writes before all have read.
        barrier.wait();
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

/// The ranks of `size` threads that are started by somebody else.
pub fn ranks(size: usize) -> Vec<Rank> {
    let place = Arc::new((Barrier::new(size), Mutex::new(vec![Vec::new(); size])));
    (0..size)
        .map(|rank| Rank {
            rank,
            size,
            place: Arc::clone(&place),
        })
        .collect()
}

/// What each of `size` threads makes of its rank, in their order.
///
/// # Panics
/// If one of them panics. The others must not wait for it by then.
pub fn in_threads<R: Send>(size: usize, work: impl Fn(Rank) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks(size)
            .into_iter()
            .map(|rank| scope.spawn(move || work(rank)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| match result {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
