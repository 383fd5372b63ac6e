//! A run's log: read back for reports, and cut back on resume.

use std::path::Path;

use kvt_train::run::{EpochsCsv, JsonlLog, read_events};
use proptest::prelude::any;

use crate::corpus::corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

fn read(folder: &Path, bytes: &[u8], offset: u64) {
    let path = folder.join("log.jsonl");
    fs_err::write(&path, bytes).unwrap();
    match read_events(&path) {
        Ok(events) => {
            assert!(events.len() <= bytes.split(|byte| *byte == b'\n').count());
            EpochsCsv::new(&folder.join("epochs.csv"), &events).unwrap();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let (log, warning) = JsonlLog::resume(&path, offset).unwrap();
    // Whole lines, of those that were there, and none after the checkpoint.
    let kept = fs_err::read(&path).unwrap();
    assert_eq!(kept.len() as u64, log.offset());
    assert!(kept.len() as u64 <= offset);
    assert!(bytes.starts_with(&kept));
    assert!(kept.is_empty() || kept.ends_with(b"\n"));
    assert_eq!(warning.is_some(), (bytes.len() as u64) < offset);
}

#[test]
fn logs() {
    let files = corpus("log");
    let folder = tempfile::tempdir().unwrap();
    for file in &files {
        read(folder.path(), file, file.len() as u64);
        assert!(read_events(&folder.path().join("log.jsonl")).is_ok());
    }
    let cases = (any::<u8>(), edits(0..6), any::<u16>());
    fuzz(1_000, &cases, |(file, edits, offset)| {
        let bytes = edited(&files, file, &edits);
        read(folder.path(), &bytes, offset.into());
    });
}
