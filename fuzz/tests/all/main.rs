//! Everything that is read from files, fed with files that are slightly wrong: an error is an answer, a
//! panic, an endless loop or memory out of proportion to the file is not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod checkpoint;
mod coco;
mod config;
mod corpus;
mod edit;
mod jpeg;
mod labels;
mod log;
mod mask;
mod parquet;
mod runner;
mod weights;
