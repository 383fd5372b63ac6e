//! A run's log: read back for reports, and cut back on resume.

use std::path::Path;

use kvt_train::run::{JsonlLog, RunDir, Tables, read_log};
use kvt_train::task::{Classify, Task};
use proptest::prelude::any;

use crate::corpus::corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

fn read(folder: &Path, bytes: &[u8], offset: u64) {
    let path = folder.join("log.jsonl");
    fs_err::write(&path, bytes).unwrap();
    let read = read_log(&path).unwrap();
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let bad = lines - read.events.len();
    match &read.warning {
        None => assert_eq!(bad, 0),
        Some(warning) if bad == 1 => assert!(warning.contains("it is left out"), "{warning}"),
        Some(warning) => assert!(warning.contains(&format!("{bad} such lines")), "{warning}"),
    }
    fs_err::write(folder.join("config.toml"), "").unwrap();
    let run = RunDir::open(folder).unwrap();
    Tables::new(&run, Classify::METRICS, &read.events).unwrap();
    let (log, warning) = JsonlLog::resume(&path, offset, u64::MAX).unwrap();
    // Whole lines, of those that were there, and none after the checkpoint.
    let kept = fs_err::read(&path).unwrap();
    assert_eq!(kept.len() as u64, log.offset());
    assert!(kept.len() as u64 <= offset);
    assert!(bytes.starts_with(&kept));
    assert!(kept.is_empty() || kept.ends_with(b"\n"));
    assert_eq!(warning.is_some(), log.offset() < offset);
}

#[test]
fn logs() {
    let files = corpus("log");
    let folder = tempfile::tempdir().unwrap();
    for file in &files {
        read(folder.path(), file, file.len() as u64);
        let read = read_log(&folder.path().join("log.jsonl")).unwrap();
        assert_eq!(read.warning, None);
    }
    let cases = (any::<u8>(), edits(0..6), any::<u16>());
    fuzz(1_000, &cases, |(file, edits, offset)| {
        let bytes = edited(&files, file, &edits);
        read(folder.path(), &bytes, offset.into());
    });
}
