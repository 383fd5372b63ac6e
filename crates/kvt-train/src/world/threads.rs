//! Processes as threads of one program: for tests, and independent of MPI.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::{World, WorldError, held};

/// A thread in the role of a process. Each sends its numbers to all over channels, so that threads that wait for one that ended
/// notice it.
#[derive(Clone, Debug)]
struct Threads {
    rank: usize,
    /// Number of the threads of this world: the first ones.
    size: usize,
    /// To each thread, this one included.
    to: Vec<Sender<Vec<f64>>>,
    /// From each thread, in order of rank. Smaller worlds share them: any two threads make the sums of all their worlds in one order.
    from: Arc<Mutex<Vec<Receiver<Vec<f64>>>>>,
}

/// The results of `work` in each of `size` processes, in order of rank.
///
/// # Panics
/// If one of them panics.
pub fn threads<R: Send>(size: usize, work: impl Fn(Arc<dyn World>) -> R + Sync) -> Vec<R> {
    let worlds = connected(size);
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = worlds
            .into_iter()
            .map(|world| scope.spawn(move || work(world)))
            .collect();
        let results = threads.into_iter().map(|thread| thread.join());
        let unwound = |result: std::thread::Result<R>| match result {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        results.map(unwound).collect()
    })
}

/// All processes of a world.
fn connected(size: usize) -> Vec<Arc<Threads>> {
    let mut receivers: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
    let mut senders: Vec<Vec<_>> = Vec::new();
    for _ in 0..size {
        let to_each = receivers.iter_mut().map(|receivers| {
            let (to, from) = channel();
            receivers.push(from);
            to
        });
        senders.push(to_each.collect());
    }
    let parts = senders.into_iter().zip(receivers);
    let threads = parts.enumerate().map(|(rank, (to, from))| {
        Arc::new(Threads {
            rank,
            size,
            to,
            from: Arc::new(Mutex::new(from)),
        })
    });
    threads.collect()
}

impl Threads {
    /// Adds the numbers of all threads, in order of rank.
    fn sum_by(&self, values: &mut [f64], add: fn(f64, f64) -> f64) -> Result<(), WorldError> {
        let from = held(&self.from);
        for to in self.to.iter().take(self.size) {
            to.send(values.to_vec()).map_err(|_| WorldError::Lost)?;
        }
        for (rank, from) in from.iter().take(self.size).enumerate() {
            let own = from.recv().map_err(|_| WorldError::Lost)?;
            // The other thread is at another sum.
            if own.len() != values.len() {
                return Err(WorldError::Lost);
            }
            for (sum, own) in values.iter_mut().zip(own) {
                *sum = if rank == 0 { own } else { add(*sum, own) };
            }
        }
        Ok(())
    }
}

impl World for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f64]) -> Result<(), WorldError> {
        self.sum_by(values, |sum, own| sum + own)
    }

    fn sum_f32(&self, values: &mut [f32]) -> Result<(), WorldError> {
        let mut wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        self.sum_by(&mut wide, |sum: f64, own: f64| {
            f64::from(sum as f32 + own as f32)
        })?;
        for (value, sum) in values.iter_mut().zip(wide) {
            *value = sum as f32;
        }
        Ok(())
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) -> Result<(), WorldError> {
        // The others add nothing to the bytes of one.
        let share = if self.rank == from { 1.0 } else { 0.0 };
        let mut wide: Vec<f64> = bytes.iter().map(|byte| share * f64::from(*byte)).collect();
        self.sum_by(&mut wide, |sum, own| sum + own)?;
        for (byte, sum) in bytes.iter_mut().zip(wide) {
            *byte = sum as u8;
        }
        Ok(())
    }

    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError> {
        let smaller = || {
            Arc::new(Self {
                size: count,
                ..self.clone()
            }) as Arc<dyn World>
        };
        Ok((self.rank < count).then(smaller))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn sums_of_all_kinds() {
        let found = threads(3, |world| {
            let own = world.rank() as f64 + 1.0;
            let mut doubles = [own, 10.0 * own];
            world.sum(&mut doubles).unwrap();
            let mut floats = [own as f32];
            world.sum_f32(&mut floats).unwrap();
            let buckets = world.sum_buckets(&[2, 0, 1], &mut |number, bucket| {
                bucket.fill(number as f32 + own as f32);
            });
            (
                doubles,
                floats,
                buckets.unwrap(),
                world.gather(own).unwrap(),
            )
        });
        for (doubles, floats, buckets, gathered) in found {
            assert_eq!((doubles, floats), ([6.0, 60.0], [6.0]));
            assert_eq!(buckets, [vec![6.0, 6.0], vec![], vec![12.0]]);
            assert_eq!(gathered, [1.0, 2.0, 3.0]);
        }
    }

    #[test]
    fn one_tells_all_and_all_tell_all() {
        let found = threads(3, |world| {
            let own = vec![world.rank() as u8; world.rank() + 2];
            let lines: Vec<String> = (0..world.rank()).map(|line| format!("{line}")).collect();
            (world.share(1, own).unwrap(), world.collect(&lines).unwrap())
        });
        for (shared, lines) in found {
            assert_eq!(shared, [1, 1, 1]);
            assert_eq!(lines, ["0", "0", "1"]);
        }
    }

    #[test]
    fn the_first_ones_are_a_world() {
        let found = threads(4, |world| {
            (1..=3)
                .map(|count| {
                    let first = world.first(count).unwrap()?;
                    let mut sum = [1.0];
                    first.sum(&mut sum).unwrap();
                    Some((first.size(), sum[0]))
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(found[0], [Some((1, 1.0)), Some((2, 2.0)), Some((3, 3.0))]);
        assert_eq!(found[2], [None, None, Some((3, 3.0))]);
        assert_eq!(found[3], [None, None, None]);
    }

    /// No thread waits forever.
    #[test]
    fn a_thread_that_ends_is_noticed() {
        let found = threads(2, |world| match world.rank() {
            0 => world.gather(1.0).map(|_| ()),
            _ => Ok(()),
        });
        assert_eq!(found[0], Err(WorldError::Lost));
    }

    /// Threads that are not at the same sum are told so, instead of a wrong one.
    #[test]
    fn different_sums_are_noticed() {
        let found = threads(2, |world| world.sum(&mut vec![1.0; world.rank() + 1]));
        assert_eq!(found, [Err(WorldError::Lost), Err(WorldError::Lost)]);
    }
}
