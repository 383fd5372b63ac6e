//! Events of a run, for tests, also for those of `kvt-tools`.

use super::{EpochRecord, EvalRecord, Event, Metrics};

pub(crate) fn epoch(epoch: u32, train_loss: f64) -> Event {
    Event::Epoch(EpochRecord {
        epoch,
        step: u64::from(epoch + 1) * 10,
        train_loss,
        lr: 0.001,
        seconds: 2.5,
        images_per_second: 100.0,
        data_wait_share: 0.25,
        communication_share: None,
    })
}

pub(crate) fn eval(epoch: u32, split: &str, top1: f64) -> Event {
    Event::Eval(EvalRecord {
        epoch,
        step: u64::from(epoch + 1) * 10,
        split: split.to_owned(),
        metrics: Metrics::from([("loss", 1.25), ("top1", top1), ("top5", 90.5)]),
        images: 40,
    })
}
