//! Jobs on several threads with results in order: the machinery of the loader.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::DataError;

type Job<T> = dyn Fn(usize, &AtomicBool) -> T + Send + Sync;

/// Runs `job(i)` for a range of `i` on worker threads and yields the results in order of `i`.
///
/// At most `workers + prefetch` jobs are running or waiting to be taken, which limits the memory. Without workers, the
/// job runs in [`next`](Iterator::next). Dropping it stops the jobs and waits for them.
pub(super) struct Ordered<T> {
    job: Arc<Job<T>>,
    next: usize,
    end: usize,
    threads: Option<ThreadPool>,
    /// Where the results of jobs that were handed out to the threads arrive, in the order of these.
    results: VecDeque<Receiver<Result<T, String>>>,
    stop: Arc<AtomicBool>,
}

impl<T: Send + 'static> Ordered<T> {
    /// Starts the threads on the jobs of `range`. A job can check the flag that it gets: true means that its result is
    /// no longer needed.
    pub(super) fn start(
        range: std::ops::Range<usize>,
        workers: usize,
        prefetch: usize,
        job: impl Fn(usize, &AtomicBool) -> T + Send + Sync + 'static,
    ) -> Result<Self, DataError> {
        let workers = workers.min(range.len());
        let mut this = Self {
            job: Arc::new(job),
            next: range.start,
            end: range.end,
            threads: None,
            results: VecDeque::new(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        if workers == 0 {
            return Ok(this);
        }
        let threads = ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(|worker| format!("kvt-data-{worker}"))
            .build();
        this.threads = Some(threads.map_err(|error| DataError::Spawn(io::Error::other(error)))?);
        for _ in 0..workers.saturating_add(prefetch).min(range.len()) {
            this.queue();
        }
        Ok(this)
    }

    /// Hands out the next job, if there is one.
    fn queue(&mut self) {
        let Some(threads) = &self.threads else {
            return;
        };
        let number = self.next + self.results.len();
        if number >= self.end {
            return;
        }
        let (done, result) = channel();
        let (job, stop) = (Arc::clone(&self.job), Arc::clone(&self.stop));
        threads.spawn_fifo(move || {
            let is_needed = !stop.load(Ordering::Relaxed);
            let result = is_needed.then(|| run(&*job, number, &stop));
            // Before its result is there, so that nothing uses the job behind the end of whoever waits for it.
            drop(job);
            if let Some(result) = result {
                // The receiver has ended when the result is no longer needed.
                let _ = done.send(result);
            }
        });
        self.results.push_back(result);
    }
}

fn run<T>(job: &Job<T>, number: usize, stop: &AtomicBool) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(|| job(number, stop))).map_err(|panic| panic_message(&*panic))
}

/// The message of a caught panic.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

impl<T: Send + 'static> Iterator for Ordered<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let result = if self.threads.is_none() {
            run(&*self.job, number, &self.stop)
        } else {
            let next = self.results.pop_front();
            let result = next.and_then(|next| next.recv().ok());
            result.unwrap_or_else(|| Err("it ended without a result".to_owned()))
        };
        self.queue();
        if result.is_err() {
            self.next = self.end;
        }
        Some(result.map_err(DataError::Panicked))
    }
}

impl<T> Drop for Ordered<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for result in &self.results {
            // An error is that its job was not begun.
            let _ = result.recv();
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_come_in_order_though_jobs_end_out_of_order() {
        let (release, gate) = channel();
        let gate = Mutex::new(gate);
        let ordered = Ordered::start(0..8, 2, 4, move |i, _| {
            // Job 0 cannot finish before job 1.
            match i {
                0 => gate.lock().unwrap().recv().unwrap(),
                1 => release.send(()).unwrap(),
                _ => {}
            }
            i
        });
        let got: Vec<_> = ordered.unwrap().map(Result::unwrap).collect();
        assert_eq!(got, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_than_the_window_is_begun() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&begun);
        let mut ordered = Ordered::start(0..100, 2, 3, move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        for taken in 1..20 {
            ordered.next().unwrap().unwrap();
            assert!(begun.load(Ordering::SeqCst) <= taken + 5);
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_end() {
        for workers in [0, 3] {
            let mut ordered = Ordered::start(0..10, workers, 2, |i, _| {
                if i == 4 {
                    panic!("job {i}")
                }
            })
            .unwrap();
            assert_eq!(ordered.by_ref().take(4).filter(Result::is_ok).count(), 4);
            let error = ordered.next().unwrap().unwrap_err();
            assert!(matches!(error, DataError::Panicked(message) if message == "job 4"));
            assert!(ordered.next().is_none());
        }
    }
}
