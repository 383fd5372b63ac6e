#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use burn::tensor::Device;
use kvt_testing::ranks::{Rank, ranks};

use super::choice::Offer;
use super::connect::connect_by;
use super::engine::Library;
use super::settle::LIMIT;
use super::testing::{Asked, Does, Fake, asked};
use super::*;
use crate::device;
use crate::world::threads;

const AT_ONCE: usize = 0;

/// A limit that is reached only by engines that are never done.
const SHORT: Duration = Duration::from_millis(1);

/// The values of all buckets.
type Sums = Result<Vec<Vec<f32>>, WorldError>;

/// The results of the processes with three buckets of 1, 2 and 3 values, each filled with the process's own number, and the calls
/// of their engines.
fn exchange(does: &[Does]) -> Vec<(Sums, Asked)> {
    exchange_within(does, LIMIT)
}

fn exchange_within(does: &[Does], limit: Duration) -> Vec<(Sums, Asked)> {
    let ranks = ranks(does.len());
    threads(does.len(), |world| {
        let rank = world.rank();
        let (fake, log) = Fake::new(ranks[rank].clone(), does[rank].clone());
        let sums = DeviceSums::new(world, Box::new(fake), "fake 1".to_owned(), limit);
        let bucket = |length| Tensor::full([length], rank as f32 + 1.0, &Device::flex());
        let found = sums.sum((1..=3).map(bucket), || {}).map(|sums| {
            let values = |sum: Tensor<1>| sum.into_data().try_to_vec::<f32>().unwrap();
            sums.into_iter().map(values).collect()
        });
        (found, asked(&log))
    })
}

#[test]
fn sums_come_in_the_order_of_the_buckets() {
    for (found, asked) in exchange(&[Does::Sums(AT_ONCE), Does::Sums(AT_ONCE)]) {
        assert_eq!(found.unwrap(), [vec![3.0], vec![3.0; 2], vec![3.0; 3]]);
        assert_eq!(asked.buckets, [1, 2, 3]);
        assert!(!asked.aborted);
    }
}

/// Longer than a round, since there is a pause before each poll: the process that is done exchanges states again.
#[test]
fn the_slowest_is_waited_for() {
    const LOOKS: usize = 1100;
    let found = exchange(&[Does::Sums(AT_ONCE), Does::Sums(LOOKS)]);
    let looks: Vec<usize> = found.iter().map(|(_, asked)| asked.polls).collect();
    assert_eq!(looks, [1, LOOKS]);
    for (found, asked) in found {
        assert_eq!(found.unwrap().len(), 3);
        assert!(!asked.aborted);
    }
}

/// The others would wait forever for a sum that one process never joins. If one cannot prepare its part, none starts: the other
/// devices would be busy, and anything that waits for them would hang.
#[test]
fn a_failure_of_one_ends_all_of_them() {
    for (does, buckets, starts) in [(Does::FailsAfter(1), 2, 0), (Does::FailsLater, 3, 1)] {
        let found = exchange(&[Does::Hangs, does, Does::Hangs]);
        assert_eq!(found[1].1.buckets.len(), buckets);
        for (found, asked) in found {
            let error = found.unwrap_err();
            let (rank, size) = (1, 3);
            let reason = "fake: a cable is loose".to_owned();
            assert_eq!(error, WorldError::Sums { rank, size, reason });
            assert_eq!((asked.starts, asked.aborted), (starts, true));
        }
    }
}

/// The network hangs, and no process notices.
#[test]
fn sums_that_never_end_are_given_up() {
    for (found, asked) in exchange_within(&[Does::Hangs, Does::Hangs], SHORT) {
        let error = found.unwrap_err().to_string();
        assert!(
            error.contains("process 0 of 2") && error.contains("not done after 0.001 s"),
            "{error}"
        );
        assert!(asked.aborted);
    }
    // The first process that is not done is named, even by processes that are done.
    let found = threads(3, |world| {
        let is_done = world.rank() != 1;
        settle(&*world, Ok(is_done), &mut || Ok(false), SHORT)
    });
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    assert!(
        matches!(found[0], Err(WorldError::Sums { rank: 1, .. })),
        "{found:?}"
    );
}

/// If several fail, the message is the first one's.
#[test]
fn all_may_fail() {
    for does in [Does::FailsLater, Does::FailsAfter(0)] {
        for (found, asked) in exchange(&[does.clone(), does]) {
            let error = found.unwrap_err().to_string();
            assert!(error.starts_with("process 0 of 2: "), "{error}");
            assert!(
                error.contains("--resume") && error.contains("NCCL_DEBUG"),
                "{error}"
            );
            assert!(asked.aborted);
        }
    }
}

/// A library whose engines are fakes.
struct Fakes {
    rank: Rank,
    does: Does,
    /// Whether this process cannot create the identifier, and whether it cannot join.
    fails: (bool, bool),
    log: Mutex<Option<Arc<Mutex<Asked>>>>,
}

impl Library for Fakes {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn id(&self) -> Result<Vec<u8>, EngineError> {
        if self.fails.0 {
            Err(no("no id"))
        } else {
            Ok(vec![7; 128])
        }
    }

    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError> {
        assert_eq!(
            (id, rank, size),
            (&[7; 128][..], self.rank.rank, self.rank.size)
        );
        if self.fails.1 {
            return Err(no("no room"));
        }
        let (fake, log) = Fake::new(self.rank.clone(), self.does.clone());
        *self.log.lock().unwrap() = Some(log);
        Ok(Box::new(fake))
    }
}

fn no(reason: &str) -> EngineError {
    EngineError {
        library: "fake",
        reason: reason.to_owned(),
    }
}

fn gpu(card: usize) -> Offer {
    Offer::Gpu {
        host: "a".to_owned(),
        card: Some(format!("0000:0{card}:00.0")),
        engine: "fake 1".to_owned(),
    }
}

/// How the processes sum, in words, and the calls of their engines if they had joined. Each process has its offer, its engine's
/// behaviour, and its failures.
fn connected(all: &[(Offer, Does, (bool, bool))]) -> Vec<(String, Option<Asked>)> {
    connected_within(all, LIMIT)
}

fn connected_within(
    all: &[(Offer, Does, (bool, bool))],
    limit: Duration,
) -> Vec<(String, Option<Asked>)> {
    let ranks = ranks(all.len());
    threads(all.len(), |world| {
        let rank = world.rank();
        let (own, does, fails) = all[rank].clone();
        let library = Fakes {
            rank: ranks[rank].clone(),
            does,
            fails,
            log: Mutex::default(),
        };
        let way = connect_by(&world, &Device::flex(), &own, Some(&library), limit).unwrap();
        let log = library.log.lock().unwrap().take();
        let words = match &way {
            GradientSum::Host => "host".to_owned(),
            GradientSum::HostInstead(reason) => reason.clone(),
            GradientSum::Device(sums) => sums.name.clone(),
        };
        (words, log.map(|log| asked(&log)))
    })
}

const WELL: (bool, bool) = (false, false);

/// The devices sum some numbers once before training relies on them.
#[test]
fn a_gpu_each_is_joined_and_tried_out() {
    let sums = || Does::Sums(AT_ONCE);
    let all = [
        (gpu(1), sums(), WELL),
        (gpu(2), sums(), WELL),
        (gpu(3), sums(), WELL),
    ];
    for (words, asked) in connected(&all) {
        assert_eq!(words, "fake 1");
        let asked = asked.unwrap();
        assert_eq!((asked.buckets.len(), asked.aborted), (2, false));
    }
}

#[test]
fn what_cannot_join_goes_by_way_of_the_host() {
    let sums = || Does::Sums(AT_ONCE);
    let missing = || Offer::Unable("NCCL: it cannot be loaded".to_owned());
    // No process is asked to join.
    for (second, expected) in [
        (missing(), "process 1: NCCL: it cannot be loaded"),
        (gpu(1), "processes 0 and 1 share one GPU (`0000:01:00.0`)"),
        (Offer::Host, "process 1 does not train on `cuda`"),
    ] {
        let all = [(gpu(1), sums(), WELL), (second, sums(), WELL)];
        for (words, asked) in connected(&all) {
            assert!(words.starts_with(expected), "{words}");
            assert_eq!(asked, None);
        }
    }
    // Without an id, no process joins.
    let all = [(gpu(1), sums(), (true, false)), (gpu(2), sums(), WELL)];
    for (words, asked) in connected(&all) {
        assert_eq!((words.as_str(), asked), ("process 0: fake: no id", None));
    }
}

/// One process cannot join, and the others would wait for it.
#[test]
fn those_that_began_to_join_give_up() {
    let all = [
        (gpu(1), Does::Hangs, WELL),
        (gpu(2), Does::Hangs, (false, true)),
    ];
    let found = connected(&all);
    assert_eq!(found[0].1.as_ref().map(|asked| asked.aborted), Some(true));
    assert_eq!(found[1].1, None);
    for (words, _) in found {
        assert_eq!(words, "process 1: fake: no room");
    }
}

/// None has failed, but they never find each other.
#[test]
fn those_that_never_join_go_by_way_of_the_host() {
    let hangs = |card| (gpu(card), Does::Hangs, WELL);
    for (words, asked) in connected_within(&[hangs(1), hangs(2)], SHORT) {
        assert!(
            words.starts_with("process 0: its device is not done after 0.001 s"),
            "{words}"
        );
        assert!(asked.unwrap().aborted);
    }
}

/// Wrong addresses would lead to training on wrong gradients.
#[test]
fn a_wrong_sum_is_noticed_before_training() {
    let all = [
        (gpu(1), Does::Sums(AT_ONCE), WELL),
        (gpu(2), Does::SumsWrong, WELL),
    ];
    for (words, asked) in connected(&all) {
        assert_eq!(
            words,
            "process 1: fake: a sum whose result is known came out wrong"
        );
        assert!(asked.unwrap().aborted);
    }
}

#[test]
fn the_cpu_has_nothing_to_choose() {
    let cpu = device::resolve("cpu").unwrap();
    for way in threads(2, |world| connect(&world, &cpu).unwrap()) {
        assert!(matches!(way, GradientSum::Host), "{way:?}");
        assert_eq!(way.message(), None);
    }
}

#[test]
fn the_log_hears_of_it() {
    let instead = GradientSum::HostInstead("no library".to_owned());
    let (topic, message) = instead.message().unwrap();
    assert_eq!(topic, Topic::Warning);
    assert!(
        message.contains("host memory") && message.ends_with(": no library"),
        "{message}"
    );

    let (fake, _) = Fake::new(ranks(1).remove(0), Does::Hangs);
    let (world, name) = (crate::world::alone(), "fake 1".to_owned());
    let sums = DeviceSums::new(world, Box::new(fake), name, LIMIT);
    let device = GradientSum::Device(Arc::new(sums));
    let (topic, message) = device.message().unwrap();
    assert_eq!(topic, Topic::Start);
    assert_eq!(message, "gradients are summed on the GPUs by fake 1");
}
