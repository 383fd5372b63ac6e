//! Jobs on several threads with results in order: the machinery of the loader.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::DataError;

type Job<T> = dyn Fn(usize, &AtomicBool) -> T + Send + Sync;

/// Runs `job(i)` for a range of `i` on worker threads and yields the results in order of `i`.
///
/// At most `workers + prefetch` jobs are running or waiting to be taken, which limits the memory. Without workers, the
/// job runs in [`next`](Iterator::next). Dropping it stops the workers and waits for them.
pub(super) struct Ordered<T> {
    job: Arc<Job<T>>,
    next: usize,
    end: usize,
    pool: Option<Pool<T>>,
    stop: Arc<AtomicBool>,
}

struct Pool<T> {
    /// The number of the next job to hand out.
    queued: usize,
    jobs: Sender<usize>,
    results: Receiver<(usize, Result<T, String>)>,
    /// Results that arrived before their turn.
    early: BTreeMap<usize, Result<T, String>>,
    threads: Vec<JoinHandle<()>>,
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
        let job: Arc<Job<T>> = Arc::new(job);
        let stop = Arc::new(AtomicBool::new(false));
        let workers = workers.min(range.len());
        let mut this = Self {
            job,
            next: range.start,
            end: range.end,
            pool: None,
            stop,
        };
        if workers == 0 {
            return Ok(this);
        }
        // The channels need no limit: the number of tickets in `jobs` is limited.
        let (jobs, tickets) = unbounded();
        let (done, results) = unbounded();
        let pool = this.pool.insert(Pool {
            queued: range.start,
            jobs,
            results,
            early: BTreeMap::new(),
            threads: Vec::new(),
        });
        for worker in 0..workers {
            let (job, stop) = (Arc::clone(&this.job), Arc::clone(&this.stop));
            let (tickets, done) = (tickets.clone(), done.clone());
            let thread = std::thread::Builder::new()
                .name(format!("kvt-data-{worker}"))
                .spawn(move || work(&*job, &stop, &tickets, &done))
                .map_err(DataError::Spawn)?;
            pool.threads.push(thread);
        }
        for _ in 0..workers.saturating_add(prefetch).min(range.len()) {
            pool.queue(range.end);
        }
        Ok(this)
    }
}

impl<T> Pool<T> {
    fn queue(&mut self, end: usize) {
        // A failed send means that all workers have ended, which `take` reports.
        if self.queued < end && self.jobs.send(self.queued).is_ok() {
            self.queued += 1;
        }
    }

    fn take(&mut self, number: usize) -> Result<T, String> {
        loop {
            if let Some(result) = self.early.remove(&number) {
                return result;
            }
            match self.results.recv() {
                Ok((done, result)) => {
                    self.early.insert(done, result);
                }
                Err(_) => return Err("it ended without a result".to_owned()),
            }
        }
    }
}

fn work<T>(
    job: &Job<T>,
    stop: &AtomicBool,
    tickets: &Receiver<usize>,
    done: &Sender<(usize, Result<T, String>)>,
) {
    for number in tickets {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let result = run(job, number, stop);
        if done.send((number, result)).is_err() {
            return;
        }
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

impl<T> Iterator for Ordered<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let result = match &mut self.pool {
            None => run(&*self.job, number, &self.stop),
            Some(pool) => {
                let result = pool.take(number);
                pool.queue(self.end);
                result
            }
        };
        if result.is_err() {
            self.next = self.end;
        }
        Some(result.map_err(DataError::Panicked))
    }
}

impl<T> Drop for Ordered<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Pool { jobs, threads, .. }) = self.pool.take() {
            drop(jobs);
            for thread in threads {
                // A panic was already reported through the results.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_come_in_order_though_jobs_end_out_of_order() {
        let (release, gate) = unbounded();
        let ordered = Ordered::start(0..8, 2, 4, move |i, _| {
            // Job 0 cannot finish before job 1.
            match i {
                0 => gate.recv().unwrap(),
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
