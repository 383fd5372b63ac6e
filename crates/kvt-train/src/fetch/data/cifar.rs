//! CIFAR-10, from the authors' binary files to PNG.

use std::io::Cursor;
use std::path::Path;

use fs_err as fs;
use image::ImageFormat;
use rayon::prelude::*;

use super::archive::{make, parts, tgz, write};
use crate::data::{DataConfig, DataError, DataKind, ImageLimits, Source, open};
use crate::fetch::FetchError;

/// The folder of the authors' files while they are read.
const BATCHES: &str = "batches";
/// How many images are written between two reports.
const REPORTED: usize = 1_000;

/// Writes `train/<class>/data_batch_1_00000.png`, ... and `val/<class>/test_batch_00000.png`, ...: a number is the position in the
/// authors' file. Those files are read as with `data.kind = "cifar"`, and then removed.
pub(super) fn cifar10(
    archive: &Path,
    root: &Path,
    done: &mut dyn FnMut(usize),
) -> Result<(), FetchError> {
    let batches = root.join(BATCHES);
    tgz(archive, &mut |parts, content| match parts {
        [_, file] => write(root, &[BATCHES], file, content),
        _ => Ok(()),
    })?;
    let data = DataConfig {
        kind: DataKind::Cifar,
        path: batches.clone(),
        ..DataConfig::default()
    };
    for (split, source) in ["train", "val"].into_iter().zip(open(&data, None)?) {
        let folder = root.join(split);
        for class in &source.classes {
            if parts(class).is_none_or(|parts| parts != [class]) {
                let reason = format!("the class `{class}` cannot be the name of a folder");
                return Err(FetchError::archive(archive, reason));
            }
            make(root, &[split, class])?;
        }
        let all: Vec<u32> = (0..).take(source.samples.len()).collect();
        for some in all.chunks(REPORTED) {
            let written = some
                .par_iter()
                .try_for_each(|&at| png(&source, at, &folder));
            written?;
            done(some.len());
        }
    }
    Ok(fs::remove_dir_all(batches)?)
}

/// Writes an image into the folder of its class.
fn png(source: &Source, at: u32, folder: &Path) -> Result<(), DataError> {
    let picture = source.image(at, ImageLimits::default())?;
    let Some(sample) = source.samples.get(at as usize) else {
        return Ok(());
    };
    let class = source.classes.get(sample.label as usize);
    let class = folder.join(class.map_or("", String::as_str));
    // `data_batch_1.bin/00000`.
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().display().to_string();
    let file = sample.path.parent().and_then(Path::file_stem);
    let name = format!("{}_{}.png", text(file), text(sample.path.file_name()));
    let path = class.join(name);
    let mut bytes = Cursor::new(Vec::new());
    let coded = picture.write_to(&mut bytes, ImageFormat::Png);
    coded.map_err(|error| DataError::Write {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    Ok(fs::write(path, bytes.into_inner())?)
}
