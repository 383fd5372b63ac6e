//! `kvt predict` of networks that answer with a picture: of segmentation and detection.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::Args;
use crate::common::{bar, results_folder, success_if};
use crate::output;
use kvt_data::escape::one_line;
use kvt_data::text::counted;

/// What a network answers with.
pub(super) struct Answer<'a> {
    /// What the network does with an image, in a sentence.
    pub(super) does: &'a str,
    /// What `--json` prints, in words.
    pub(super) json: &'a str,
    /// What a file is.
    pub(super) file: &'a str,
}

/// Checks where the answer goes, before the network is loaded.
pub(super) fn check(args: &Args, answer: &Answer<'_>) -> anyhow::Result<()> {
    let Answer { does, json, .. } = answer;
    match args.output.as_deref() {
        None if !args.json => bail!(
            "this model {does}: `--out DIR` says where the painted images go, and `--json` prints {json}"
        ),
        Some(file) if super::is_table(file) => bail!(
            "`--output {}`: this model {does}, so it is a folder, and `--json` prints {json}",
            file.display()
        ),
        Some(out) => results_folder(out),
        None => Ok(()),
    }
}

/// Looks at each file, writes what `write` makes of it into the folder of `--out`, and prints what `record` makes of it with `--json`.
pub(super) fn each<S>(
    args: &Args,
    (files, are_all): (&[PathBuf], bool),
    answer: &Answer<'_>,
    look: impl Fn(&Path) -> anyhow::Result<S>,
    write: impl Fn(&S, &Path) -> anyhow::Result<()>,
    record: impl Fn(&S) -> Value,
) -> anyhow::Result<ExitCode> {
    let progress = bar("painting", files.len());
    let (mut records, mut failed) = (Vec::new(), 0);
    for (number, path) in files.iter().enumerate() {
        let seen = look(path);
        match &seen {
            Ok(seen) => {
                if let Some(out) = &args.output {
                    let stem = path.file_stem().unwrap_or(path.as_os_str());
                    // The number distinguishes images of the same name in several folders.
                    let name = format!("{number:03}-{}.png", stem.to_string_lossy());
                    write(seen, &out.join(name))?;
                }
            }
            Err(error) => {
                failed += 1;
                output::error(&one_line(&format!("{error:#}")));
            }
        }
        if args.json {
            let mut all = Map::new();
            all.insert("image".to_owned(), json!(path.display().to_string()));
            match seen.map(|seen| record(&seen)) {
                Ok(Value::Object(found)) => all.extend(found),
                Ok(_) => {}
                Err(error) => {
                    all.insert("error".to_owned(), json!(format!("{error:#}")));
                }
            }
            records.push(Value::from(all));
        }
        progress.inc(1);
    }
    drop(progress);
    if args.json {
        output::print(&format!("{:#}", Value::from(records)))?;
    }
    if let Some(out) = &args.output {
        let done = counted(files.len() - failed, answer.file);
        output::status(&format!("wrote {done} into `{}`", out.display()));
    }
    // As with classes: the other images are still painted, and the exit status reports the failure.
    Ok(success_if(are_all && failed == 0))
}
