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

/// Writes the scalars `train/*` and `<split>/*` of a run, one event file per start. A record is handed to the system
/// in one write.
#[derive(Debug)]
pub struct TensorBoard {
    file: fs::File,
}

impl TensorBoard {
    /// Opens a new event file in `folder` (made if absent) for a run with `steps_done` optimizer updates behind it.
    /// What earlier files hold beyond that, TensorBoard discards.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn new(folder: &Path, steps_done: u64) -> Result<Self, RunError> {
        fs::create_dir_all(folder)?;
        let now = now();
        let host = sysinfo::System::host_name().unwrap_or_else(|| "localhost".to_owned());
        let stem = format!(
            "events.out.tfevents.{:010}.{host}.{}",
            now as u64,
            std::process::id()
        );
        // Several starts within one second get a counter, as in TensorFlow's own names.
        let mut attempt = 0;
        let mut file = loop {
            match fs::File::create_new(folder.join(format!("{stem}.{attempt}"))) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                other => break other?,
            }
        };
        file.write_all(&record(&version_event(now)))?;
        if steps_done > 0 {
            file.write_all(&record(&restart_event(now, steps_done + 1)))?;
        }
        Ok(Self { file })
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
                &[
                    ("loss", eval.loss),
                    ("top1", eval.top1),
                    ("top5", eval.top5),
                ],
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
    use crate::run::{EvalRecord, StepRecord};

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

    #[test]
    fn each_start_has_its_own_file_of_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        for steps_done in [0, 1] {
            let mut board =
                TensorBoard::new(&folder.path().join("tensorboard"), steps_done).unwrap();
            board
                .event(&Event::Step(StepRecord {
                    step: steps_done + 1,
                    epoch: 0,
                    loss: 2.0,
                    lr: 0.1,
                    grad_norm: 1.0,
                    images_per_second: 10.0,
                    data_wait: 0.0,
                }))
                .unwrap();
            board
                .event(&Event::Eval(EvalRecord {
                    epoch: 0,
                    step: steps_done + 1,
                    split: EvalRecord::VAL.to_owned(),
                    loss: 1.0,
                    top1: 50.0,
                    top5: 100.0,
                    images: 2,
                }))
                .unwrap();
        }
        let mut records: Vec<usize> = fs::read_dir(folder.path().join("tensorboard"))
            .unwrap()
            .map(|entry| {
                let bytes = fs::read(entry.unwrap().path()).unwrap();
                let mut rest = bytes.as_slice();
                let mut count = 0;
                while !rest.is_empty() {
                    let (length, _) = rest.split_first_chunk::<8>().unwrap();
                    let payload = usize::try_from(u64::from_le_bytes(*length)).unwrap();
                    rest = &rest[payload + 16..];
                    count += 1;
                }
                count
            })
            .collect();
        records.sort_unstable();
        assert_eq!(records, [3, 4]);
    }
}
