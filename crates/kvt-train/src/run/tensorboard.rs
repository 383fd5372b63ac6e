//! Event files for TensorBoard, written by hand: the format is small and the libraries for it are not.
//!
//! An event file is a sequence of TFRecords: length (`u64`, little endian), masked CRC-32C of the length, payload,
//! masked CRC-32C of the payload. The payload is a protobuf `tensorflow.Event`, of which these fields are used:
//! `wall_time` 1, `step` 2, `file_version` 3, `summary` 5 (repeated `value` 1 with `tag` 1 and `simple_value` 2),
//! `session_log` 7 (`status` 1).

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err as fs;

use super::{Event, Listener, RunError};

const PREFIX: &str = "events.out.tfevents.";

/// Writes the scalars `train/*` and `<split>/*` of a run, one event file per start. A record is handed to the system
/// in one write.
#[derive(Debug)]
pub struct TensorBoard {
    file: fs::File,
}

impl TensorBoard {
    /// Opens a new event file in `folder` (made if absent). A run that is resumed after the step `resumed` has
    /// TensorBoard discard what earlier files hold from that step on: an evaluation after it may be in them that will
    /// be made again. What the log keeps of that step (of `logged`) is therefore written once more.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn new(folder: &Path, resumed: Option<u64>, logged: &[Event]) -> Result<Self, RunError> {
        fs::create_dir_all(folder)?;
        let now = now();
        let host = sysinfo::System::host_name().unwrap_or_else(|| "localhost".to_owned());
        // TensorBoard reads files in the order of their names: each start must come after those before it.
        let second = (now as u64).max(latest(folder)?.map_or(0, |second| second + 1));
        let name = format!("{PREFIX}{second:010}.{host}.{}.0", std::process::id());
        let mut file = fs::File::create_new(folder.join(name))?;
        file.write_all(&record(&version_event(now)))?;
        if let Some(step) = resumed {
            file.write_all(&record(&restart_event(now, step)))?;
        }
        let mut board = Self { file };
        for event in logged.iter().filter(|event| Some(event.step()) == resumed) {
            board.event(event)?;
        }
        Ok(board)
    }

    fn scalars(
        &mut self,
        step: u64,
        section: &str,
        values: &[(&str, f64)],
    ) -> Result<(), RunError> {
        let event = scalar_event(now(), step, section, values);
        self.file.write_all(&record(&event))?;
        Ok(())
    }
}

/// The second in the name of the latest event file.
fn latest(folder: &Path) -> Result<Option<u64>, RunError> {
    let mut latest = None;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let second = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok());
        latest = latest.max(second);
    }
    Ok(latest)
}

impl Listener for TensorBoard {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        match event {
            Event::Step(step) => self.scalars(
                step.step,
                "train",
                &[
                    ("loss", step.loss),
                    ("lr", step.lr),
                    ("grad_norm", step.grad_norm),
                    ("images_per_second", step.images_per_second),
                ],
            ),
            Event::Eval(eval) => self.scalars(
                eval.step,
                &eval.split,
                &eval.metrics.iter().collect::<Vec<_>>(),
            ),
            Event::Epoch(_) | Event::Note(_) => Ok(()),
        }
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |duration| duration.as_secs_f64())
}

fn record(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut bytes = Vec::with_capacity(payload.len() + 16);
    bytes.extend(length);
    bytes.extend(masked_crc(&length).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(masked_crc(payload).to_le_bytes());
    bytes
}

/// CRC-32C, rotated and shifted so that a CRC over data holding CRCs stays meaningful.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time);
    event.bytes(3, b"brain.Event:2");
    event.0
}

/// `SessionLog::START` makes TensorBoard drop what it has read from `step` on.
fn restart_event(wall_time: f64, step: u64) -> Vec<u8> {
    const START: u64 = 1;
    let mut session = Message::default();
    session.integer(1, START);
    let mut event = Message::default();
    event.double(1, wall_time);
    event.integer(2, step);
    event.bytes(7, &session.0);
    event.0
}

fn scalar_event(wall_time: f64, step: u64, section: &str, values: &[(&str, f64)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (name, number) in values {
        let mut value = Message::default();
        value.bytes(1, format!("{section}/{name}").as_bytes());
        value.float(2, *number as f32);
        summary.bytes(1, &value.0);
    }
    let mut event = Message::default();
    event.double(1, wall_time);
    event.integer(2, step);
    event.bytes(5, &summary.0);
    event.0
}

/// A protobuf message under construction; the methods append one field each.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn integer(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::run::{EvalRecord, Metrics, StepRecord};

    /// Written by TensorBoard 2.21.0 (`RecordWriter` with `event_pb2.Event`): the file version; the start of a
    /// session at step 7; the scalars `val/loss` = 1.25 and `val/top1` = 62.5 at step 300.
    const GOLDEN: &str = "\
        1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c0f00000000000000\
        6d532b0909000000000000f83f10073a020801774771c7300000000000000095f5d05f09000000000000024010ac022a\
        220a0f0a0876616c2f6c6f7373150000a03f0a0f0a0876616c2f746f70311500007a42ec5461f3";

    #[test]
    fn bytes_equal_tensorboards_own() {
        let mut bytes = record(&version_event(1.5));
        bytes.extend(record(&restart_event(1.5, 7)));
        let scalars = [("loss", 1.25), ("top1", 62.5)];
        bytes.extend(record(&scalar_event(2.25, 300, "val", &scalars)));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
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

    /// What is left of (step, `train` or `val`) after TensorBoard's rule for restarts: a start of a session at a step
    /// discards everything read so far from that step on.
    fn points(folder: &Path) -> Vec<(u64, &'static str)> {
        let mut points = Vec::new();
        for payload in payloads(folder) {
            // `wall_time` takes nine bytes, then comes the step, below 128 in these tests.
            let step = match payload[9] {
                0x10 => u64::from(payload[10]),
                _ => continue,
            };
            let has = |text: &[u8]| payload.windows(text.len()).any(|bytes| bytes == text);
            match payload[11] {
                0x3a => points.retain(|(other, _)| *other < step),
                _ if has(b"train/loss") => points.push((step, "train")),
                _ if has(b"val/top1") => points.push((step, "val")),
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
        // Killed after `done` events, when the checkpoint was made after `saved` of them: before the first one, in
        // the middle, between the last step and the evaluation, and after it.
        for done in 0..=whole.len() {
            for saved in 0..=done {
                let folder = tempfile::tempdir().unwrap();
                let mut board = TensorBoard::new(folder.path(), None, &[]).unwrap();
                for event in &whole[..done] {
                    board.event(event).unwrap();
                }
                let (logged, rest) = whole.split_at(saved);
                let at = logged.last().map_or(0, Event::step);
                let mut board = TensorBoard::new(folder.path(), Some(at), logged).unwrap();
                for event in rest {
                    board.event(event).unwrap();
                }
                assert_eq!(
                    points(folder.path()),
                    names,
                    "killed at {done}, saved at {saved}"
                );
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
        drop(TensorBoard::new(folder.path(), Some(0), &[]).unwrap());
        let name = latest(folder.path()).unwrap();
        assert_eq!(name, Some(9_999_999_999));
    }
}
