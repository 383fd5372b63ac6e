#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::config::leaves;
use crate::run::{EvalRecord, Metrics, StepRecord};

/// Written by TensorBoard 2.21.0 (`RecordWriter` with `event_pb2.Event`): the file version; the start of a
/// session at step 7; the scalars `val/loss` = 1.25 and `val/top1` = 62.5 at step 300.
const GOLDEN: &str = "\
    1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c0f00000000000000\
    6d532b0909000000000000f83f10073a020801774771c7300000000000000095f5d05f09000000000000024010ac022a\
    220a0f0a0876616c2f6c6f7373150000a03f0a0f0a0876616c2f746f70311500007a42ec5461f3";

#[test]
fn bytes_equal_tensorboards_own() {
    let mut bytes = record(&event(1.5, None, 3, b"brain.Event:2").0);
    bytes.extend(record(&restart_event(1.5, 7).0));
    let scalars = [("loss", 1.25), ("top1", 62.5)];
    bytes.extend(record(
        &scalar_event(2.25, 300, "val", scalars.into_iter()).0,
    ));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
}

fn parameters() -> BTreeMap<String, toml::Value> {
    leaves(toml::from_str("[optim]\nlr = 0.1\n").unwrap())
}

fn has(payload: &[u8], text: &[u8]) -> bool {
    payload.windows(text.len()).any(|bytes| bytes == text)
}

fn step(step: u64) -> Event {
    Event::Step(StepRecord {
        step,
        epoch: 0,
        loss: 2.0,
        lr: 0.1,
        grad_norm: 1.0,
        images_per_second: 10.0,
        data_wait: 0.0,
        metrics: Metrics::default(),
        communication: None,
    })
}

fn eval(step: u64) -> Event {
    Event::Eval(EvalRecord {
        epoch: 0,
        step,
        split: EvalRecord::VAL.to_owned(),
        metrics: Metrics::from([("loss", 1.0), ("top1", 50.0), ("top5", 100.0)]),
        images: 2,
    })
}

/// The payloads of all files, in the order in which TensorBoard reads them.
fn payloads(folder: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut payloads = Vec::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut rest = bytes.as_slice();
        while let Some((length, _)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
            payloads.push(rest[12..12 + length].to_vec());
            rest = &rest[length + 16..];
        }
        assert!(rest.is_empty());
    }
    payloads
}

/// The points (step, `train` or `val`) that remain under TensorBoard's rule for restarts: a session start at a step discards
/// everything read so far from that step on.
fn points(folder: &Path) -> Vec<(u64, &'static str)> {
    let mut points = Vec::new();
    for payload in payloads(folder) {
        // `wall_time` takes nine bytes, then comes the step, below 128 in these tests.
        let step = match payload[9] {
            0x10 => u64::from(payload[10]),
            _ => continue,
        };
        match payload[11] {
            0x3a => points.retain(|(other, _)| *other < step),
            _ if has(&payload, b"train/loss") => points.push((step, "train")),
            _ if has(&payload, b"val/top1") => points.push((step, "val")),
            _ => {}
        }
    }
    points
}

#[test]
fn every_point_is_there_once_after_any_resume() {
    let whole = [step(1), step(2), eval(2), step(3), step(4), eval(4)];
    let names = [
        (1, "train"),
        (2, "train"),
        (2, "val"),
        (3, "train"),
        (4, "train"),
        (4, "val"),
    ];
    // Killed after `done` events, with the checkpoint made after `saved` of them: before the first one, in the middle, between
    // the last step and the evaluation, and after it.
    for done in 0..=whole.len() {
        for saved in 0..=done {
            let folder = tempfile::tempdir().unwrap();
            let mut board = TensorBoard::new(folder.path(), None, &[], &parameters()).unwrap();
            for event in &whole[..done] {
                board.event(event).unwrap();
            }
            let (logged, rest) = whole.split_at(saved);
            let at = logged.last().map_or(0, Event::step);
            let mut board =
                TensorBoard::new(folder.path(), Some(at), logged, &parameters()).unwrap();
            for event in rest {
                board.event(event).unwrap();
            }
            assert_eq!(
                points(folder.path()),
                names,
                "killed at {done}, saved at {saved}"
            );
            // Once, or twice if the run started over.
            let starts = payloads(folder.path())
                .into_iter()
                .filter(|payload| has(payload, b"_hparams_/"));
            assert_eq!(starts.count(), if at == 0 { 2 } else { 1 });
        }
    }
}

#[test]
fn a_later_start_comes_after_the_files_of_a_clock_that_was_ahead() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder
            .path()
            .join("events.out.tfevents.9999999998.host.7.0"),
        "",
    )
    .unwrap();
    drop(TensorBoard::new(folder.path(), Some(0), &[], &parameters()).unwrap());
    let name = latest(folder.path()).unwrap();
    assert_eq!(name, Some(9_999_999_999));
}
