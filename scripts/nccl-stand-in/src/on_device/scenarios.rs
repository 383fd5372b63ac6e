//! What may happen, each in a program of its own.

use std::thread::{scope, sleep, spawn};
use std::time::Duration;

use burn::tensor::{Device, Tensor};

use super::engine::Library as _;
use super::nccl::{Library, version};
use super::{Engine, EngineError};

/// Runs one by its name.
pub fn run(scenario: &str) {
    match scenario {
        "missing" => refused(version().map(|_| ()), "no `libnccl.so`"),
        "old" => refused(version().map(|_| ()), "2708 is too old"),
        "sums" => sums(),
        "only_prepared" => only_prepared(),
        "one_never_joins_in" => one_never_joins_in(),
        "given_up_while_joining" => given_up_while_joining(),
        "refused" => refused(
            join(&[1; 128], 0, 2).map(|_| ()),
            "invalid usage (5): a cable is loose",
        ),
        "lost" => lost(),
        other => panic!("no scenario `{other}`"),
    }
}

fn refused(what: Result<(), EngineError>, why: &str) {
    let error = what.expect_err("should have been refused");
    let text = format!("{}: {}", error.library, error.reason);
    assert!(text.contains(why), "{text}");
    println!("{text}");
}

fn join(id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError> {
    Library(Device).join(id, rank, size)
}

/// Polls until all is done.
fn wait(engine: &mut dyn Engine) -> usize {
    let mut polls = 0;
    while !engine.poll().expect("works") {
        polls += 1;
        sleep(Duration::from_micros(200));
    }
    polls
}

/// Two updates of three processes with four buckets each.
fn sums() {
    assert_eq!(version().expect("is there"), "NCCL 2.27.5");
    let library = Library(Device);
    assert!(version().is_ok_and(|version| version.starts_with(library.name())));
    let id = library.id().expect("is there");
    assert_eq!(id, [0x85; 128]);
    const SIZE: usize = 3;
    scope(|scope| {
        for rank in 0..SIZE {
            let id = id.clone();
            scope.spawn(move || {
                // Used by another thread than the one that has joined.
                let joined = spawn(move || join(&id, rank, SIZE)).join();
                let mut engine = joined.expect("no panic").expect("joins");
                assert!(wait(&mut *engine) > 0, "it takes a while");
                for update in 0..2 {
                    let own = |bucket: usize| {
                        Tensor::full([10 * bucket], (rank + bucket + update) as f32)
                    };
                    engine.prepare(&mut (1..=4).map(own)).expect("prepares");
                    engine.start().expect("starts");
                    wait(&mut *engine);
                    let sums = engine.take();
                    assert_eq!(sums.len(), 4);
                    for (bucket, sum) in (1..).zip(sums) {
                        let expected = (3 + SIZE * (bucket + update)) as f32;
                        assert_eq!(sum.values(), vec![expected; 10 * bucket]);
                    }
                }
            });
        }
    });
    println!("right");
}

/// Another process may fail before it has its part, so that nothing may be on its way to it.
fn only_prepared() {
    let mut engine = join(&[5; 128], 0, 1).expect("joins");
    wait(&mut *engine);
    engine
        .prepare(&mut [4, 2].into_iter().map(|length| Tensor::full([length], 1.0)))
        .expect("prepares");
    for _ in 0..10 {
        assert!(engine.poll().expect("goes on"), "something was started");
        sleep(Duration::from_millis(2));
    }
    engine.abort();
    assert!(engine.take().is_empty());
    engine.start().expect_err("is gone");
    println!("nothing started");
}

/// The others are never done, and give up.
fn one_never_joins_in() {
    const SIZE: usize = 3;
    scope(|scope| {
        for rank in 0..SIZE {
            scope.spawn(move || {
                let mut engine = join(&[2; 128], rank, SIZE).expect("joins");
                wait(&mut *engine);
                if rank == 1 {
                    return;
                }
                let mut buckets = std::iter::once(Tensor::full([5], 1.0));
                engine.prepare(&mut buckets).expect("prepares");
                engine.start().expect("starts");
                for _ in 0..50 {
                    assert!(!engine.poll().expect("goes on"));
                    sleep(Duration::from_millis(2));
                }
                engine.abort();
                engine.poll().expect_err("is gone");
                engine.abort();
            });
        }
    });
    println!("given up");
}

/// NCCL's own thread writes the communicator's place again while it is aborted, and that must not bring it back.
fn given_up_while_joining() {
    let mut engine = join(&[3; 128], 0, 2).expect("begins");
    assert!(!engine.poll().expect("goes on"));
    engine.abort();
    sleep(Duration::from_millis(100));
    engine.poll().expect_err("is gone");
    drop(engine);
    println!("given up");
}

/// Another process ends while they join.
fn lost() {
    let mut engine = join(&[4; 128], 0, 2).expect("begins");
    let error = loop {
        match engine.poll() {
            Ok(is_done) => assert!(!is_done),
            Err(error) => break error,
        }
        sleep(Duration::from_millis(1));
    };
    refused(
        Err(error),
        "another process has ended, or the network failed (6)",
    );
}
