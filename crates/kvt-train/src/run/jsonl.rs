//! `log.jsonl`: every event as a line, cut back on resume.

use std::io::Write;
use std::path::Path;

use fs_err as fs;

use super::{Event, Listener, RunError};
use kvt_data::fs::{if_there, write_atomic};
use kvt_data::regular;

/// Appends events to a log. Each line is passed to the system in one write as it happens, so a killed process loses none;
/// [`Listener::sync`] also protects them from a power failure.
#[derive(Debug)]
pub struct JsonlLog {
    file: fs::File,
    offset: u64,
}

impl JsonlLog {
    /// Continues a log at the `offset` in bytes that a checkpoint after `step` recorded: later lines belong to steps that will be
    /// repeated, and are dropped. Lines of later steps are dropped wherever they are, since the offset is meaningless in a log
    /// that was lost and started again. Offset 0 starts afresh, as does a new run.
    ///
    /// # Errors
    /// If the file cannot be read or cut. A log that is missing, too short or without its last lines (edited, lost) is only a
    /// warning: the run does not depend on it.
    pub fn resume(path: &Path, offset: u64, step: u64) -> Result<(Self, Option<String>), RunError> {
        let content = if_there(regular::read(path))?.unwrap_or_default();
        let length = usize::try_from(offset).unwrap_or(usize::MAX);
        let head = content.get(..length).unwrap_or(&content);
        let last = head.iter().rposition(|byte| *byte == b'\n');
        let end = last.map_or(0, |last| last + 1);
        let (mut kept, mut reached) = (Vec::new(), 0);
        for line in head[..end].split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) if event.step() > step => continue,
                Ok(Event::Step(update)) => reached = update.step,
                _ => {}
            }
            kept.extend_from_slice(line);
        }
        write_atomic(path, |file| file.write_all(&kept))?;
        let file = fs::OpenOptions::new().append(true).open(path)?;
        let kept = kept.len() as u64;
        let warning = (kept < offset).then(|| {
            format!(
                "`{}` ends after step {reached}, but the checkpoint was made after step {step}: the lines between are lost",
                path.display()
            )
        });
        let log = Self { file, offset: kept };
        Ok((log, warning))
    }

    /// Length of the log in bytes, for checkpoints.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Listener for JsonlLog {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        let mut line = serde_json::to_vec(event).map_err(std::io::Error::from)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.offset += line.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.file.sync_data()?;
        Ok(())
    }
}

/// The content of a log.
#[derive(Debug, Default)]
pub struct Log {
    /// The events, in chronological order.
    pub events: Vec<Event>,
    /// A warning about lines that do not parse, if there are any.
    pub warning: Option<String>,
}

/// Reads a log back. An unterminated last line is left out: a running process may be writing it. A line that does not parse (a
/// flipped bit, an edit) is left out with a warning.
///
/// # Errors
/// If the file cannot be read.
pub fn read_log(path: &Path) -> Result<Log, RunError> {
    let content = regular::read(path)?;
    let (mut events, mut broken) = (Vec::new(), Vec::new());
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    for (line, text) in (1_usize..).zip(lines.filter(|text| text.ends_with(b"\n"))) {
        match serde_json::from_slice(text) {
            Ok(event) => events.push(event),
            Err(error) => broken.push((line, error)),
        }
    }
    let warning = broken.first().map(|(line, reason)| {
        let left_out = match broken.len() {
            1 => "it is".to_owned(),
            count => format!("{count} such lines are"),
        };
        let path = path.display();
        format!("`{path}`, line {line}: {reason}; {left_out} left out of tables and curves")
    });
    Ok(Log { events, warning })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::run::{Note, Topic};

    fn new(path: &Path) -> JsonlLog {
        JsonlLog::resume(path, 0, 0).unwrap().0
    }

    fn note(step: u64) -> Event {
        Event::Note(Note::new(step, Topic::Warning, "text"))
    }

    #[test]
    fn resuming_drops_the_lines_after_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = new(&path);
        log.event(&note(1)).unwrap();
        log.event(&note(2)).unwrap();
        let offset = log.offset();
        assert_eq!(offset, fs::metadata(&path).unwrap().len());
        log.event(&note(3)).unwrap();
        drop(log);
        let (mut log, warning) = JsonlLog::resume(&path, offset, 2).unwrap();
        assert_eq!(warning, None);
        log.event(&note(3)).unwrap();
        log.event(&note(4)).unwrap();
        assert_eq!(log.offset(), fs::metadata(&path).unwrap().len());
        // A log that ends where the checkpoint says is complete.
        let (_, warning) = JsonlLog::resume(&path, log.offset(), 9).unwrap();
        assert_eq!(warning, None);
        assert_eq!(
            read_log(&path).unwrap().events,
            [note(1), note(2), note(3), note(4)]
        );
    }

    #[test]
    fn resuming_at_zero_starts_afresh() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        fs::write(&path, "anything\n").unwrap();
        let (log, warning) = JsonlLog::resume(&path, 0, 0).unwrap();
        assert_eq!((log.offset(), warning), (0, None));
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_lost_log_is_a_warning_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = new(&path);
        log.event(&note(1)).unwrap();
        let whole = log.offset();
        log.event(&note(2)).unwrap();
        log.file.set_len(whole + 3).unwrap();
        let (log, warning) = JsonlLog::resume(&path, 10_000, 7).unwrap();
        assert_eq!(log.offset(), whole);
        let warning = warning.unwrap();
        assert!(
            warning.contains("ends after step 0, but the checkpoint was made after step 7"),
            "{warning}"
        );
        fs::remove_file(&path).unwrap();
        let (log, warning) = JsonlLog::resume(&path, 10, 7).unwrap();
        assert_eq!(log.offset(), 0);
        assert!(warning.is_some());
    }

    #[test]
    fn a_zeroed_tail_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = new(&path);
        log.event(&note(1)).unwrap();
        let whole = log.offset();
        log.event(&note(2)).unwrap();
        let offset = log.offset();
        log.file.set_len(whole).unwrap();
        log.file.set_len(offset).unwrap();
        let (log, warning) = JsonlLog::resume(&path, offset, 2).unwrap();
        assert_eq!(log.offset(), whole);
        let warning = warning.unwrap();
        let expected = "ends after step 0, but the checkpoint was made after step 2";
        assert!(warning.contains(expected), "{warning}");
    }

    #[test]
    fn lines_of_later_steps_go_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = new(&path);
        // Started again after earlier lines were lost: it is shorter than the checkpoint's offset.
        for step in [4, 5, 6] {
            log.event(&note(step)).unwrap();
        }
        let (mut log, warning) = JsonlLog::resume(&path, 10_000, 4).unwrap();
        assert!(warning.is_some());
        log.event(&note(5)).unwrap();
        assert_eq!(log.offset(), fs::metadata(&path).unwrap().len());
        assert_eq!(read_log(&path).unwrap().events, [note(4), note(5)]);
    }

    #[test]
    fn reading_tolerates_a_line_in_the_making_and_counts_bad_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = new(&path);
        log.event(&note(1)).unwrap();
        log.file.write_all(b"{\"kind\":\"st").unwrap();
        assert!(read_log(&path).unwrap().warning.is_none());
        assert_eq!(read_log(&path).unwrap().events, [note(1)]);
        log.file.write_all(b"\n\xff\xfe\n").unwrap();
        log.event(&note(2)).unwrap();
        let read = read_log(&path).unwrap();
        assert_eq!(read.events, [note(1), note(2)]);
        let warning = read.warning.unwrap();
        assert!(
            warning.contains("log.jsonl`, line 2:") && warning.contains("2 such lines"),
            "{warning}"
        );
    }
}
