//! Event files for TensorBoard, written by hand: the format is small, the libraries for it are not.
//!
//! An event file is a sequence of TFRecords: length (`u64`, little endian), masked CRC-32C of the length, payload,
//! masked CRC-32C of the payload. The payload is a protobuf `tensorflow.Event`. These of its fields are used:
//! `wall_time` 1, `step` 2, `file_version` 3, `summary` 5 (repeated `value` 1 with `tag` 1 and `simple_value` 2),
//! `session_log` 7 (`status` 1).

mod hparams;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err as fs;

use self::hparams::hparams_event;
use super::{Event, LayerRecord, Listener, RunError};

const PREFIX: &str = "events.out.tfevents.";

/// Writes the scalars `train/*`, `<split>/*` and `layer<number>/*` of a run, one event file per start. A record is passed to the
/// system in one write.
#[derive(Debug)]
pub struct TensorBoard {
    file: fs::File,
}

impl TensorBoard {
    /// Opens a new event file in `folder` (created if missing). A run resumed after the step `resumed` makes TensorBoard discard
    /// the content of earlier files from that step on, since they may hold an evaluation that will be repeated. So the logged
    /// events of that step (in `logged`) are written once more. A run that starts records its hyper-parameters: the values of its
    /// configuration by their dotted keys.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub fn new(
        folder: &Path,
        resumed: Option<u64>,
        logged: &[Event],
        parameters: &BTreeMap<String, toml::Value>,
    ) -> Result<Self, RunError> {
        fs::create_dir_all(folder)?;
        let now = now();
        let host = sysinfo::System::host_name().unwrap_or_else(|| "localhost".to_owned());
        // TensorBoard reads files in the order of their names, so each start must sort after the earlier ones.
        let second = (now as u64).max(latest(folder)?.map_or(0, |second| second + 1));
        let name = format!("{PREFIX}{second:010}.{host}.{}.0", std::process::id());
        let file = fs::File::create_new(folder.join(name))?;
        let mut board = Self { file };
        board.write(&event(now, None, 3, b"brain.Event:2"))?;
        if let Some(step) = resumed {
            board.write(&restart_event(now, step))?;
        }
        // The hyper-parameters are at step 0: a start at a later step keeps those of the first.
        if resumed.unwrap_or(0) == 0 {
            board.write(&hparams_event(parameters, now))?;
        }
        for event in logged.iter().filter(|event| Some(event.step()) == resumed) {
            board.event(event)?;
        }
        Ok(board)
    }

    fn write(&mut self, event: &Message) -> Result<(), RunError> {
        Ok(self.file.write_all(&record(&event.0))?)
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
        let event = match event {
            Event::Step(step) => {
                let own = [
                    ("loss", step.loss),
                    ("lr", step.lr),
                    ("grad_norm", step.grad_norm),
                    ("images_per_second", step.images_per_second),
                ];
                let all = own.into_iter().chain(step.metrics.iter());
                scalar_event(now(), step.step, "train", all)
            }
            Event::Eval(eval) => scalar_event(now(), eval.step, &eval.split, eval.metrics.iter()),
            Event::Layer(layer) => {
                let is_mean = |(name, _): &(&str, f64)| !name.ends_with(LayerRecord::ERROR);
                let section = format!("layer{:02}", layer.layer);
                let means = layer.metrics.iter().filter(is_mean);
                scalar_event(now(), layer.step, &section, means)
            }
            Event::Epoch(_) | Event::Note(_) => return Ok(()),
        };
        self.write(&event)
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

/// CRC-32C, rotated and offset so that a CRC of data that contains CRCs stays meaningful.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

/// An event with its content in a field.
fn event(wall_time: f64, step: Option<u64>, field: u64, content: &[u8]) -> Message {
    let event = Message::default().double(1, wall_time);
    let event = match step {
        Some(step) => event.integer(2, step),
        None => event,
    };
    event.bytes(field, content)
}

/// `SessionLog::START` makes TensorBoard discard data from `step` on.
fn restart_event(wall_time: f64, step: u64) -> Message {
    const START: u64 = 1;
    let session = Message::default().integer(1, START);
    event(wall_time, Some(step), 7, &session.0)
}

fn scalar_event<'a>(
    wall_time: f64,
    step: u64,
    section: &str,
    values: impl Iterator<Item = (&'a str, f64)>,
) -> Message {
    let mut summary = Message::default();
    for (name, number) in values {
        let value = Message::default()
            .bytes(1, format!("{section}/{name}").as_bytes())
            .float(2, number as f32);
        summary = summary.bytes(1, &value.0);
    }
    event(wall_time, Some(step), 5, &summary.0)
}

/// A protobuf message under construction; the methods append one field each.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn field(self, field: u64, wire_type: u64, value: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | wire_type);
        message.0.extend(value);
        message
    }

    fn integer(self, field: u64, value: u64) -> Self {
        self.field(field, 0, &Self::default().varint(value).0)
    }

    fn double(self, field: u64, value: f64) -> Self {
        self.field(field, 1, &value.to_le_bytes())
    }

    fn bytes(self, field: u64, value: &[u8]) -> Self {
        let length = Self::default().varint(value.len() as u64).0;
        self.field(field, 2, &[length.as_slice(), value].concat())
    }

    fn float(self, field: u64, value: f32) -> Self {
        self.field(field, 5, &value.to_le_bytes())
    }
}

#[cfg(test)]
mod tests;
