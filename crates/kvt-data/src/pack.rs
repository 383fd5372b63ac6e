//! `kvt data pack`: converts an image folder or Parquet files to tar shards.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::decode::{NOT_AN_IMAGE, format_of};
use crate::fs::{sync_folder, write_atomic, write_folder};
use crate::source::{CLASSES, LABEL, SHARD};
use crate::{
    DataConfig, DataError, DataKind, ImageLimits, Source, SplitError, TRAIN, VAL, is_whole,
    listing, open, open_split, split_name,
};

/// The result of packing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of images.
    pub images: usize,
    /// Number of shards.
    pub shards: usize,
}

/// The named splits of an image folder or of Parquet files, without names `train` and `val`, all with the classes of the first; with
/// `data.val_fraction`, the two splits that it makes of a folder.
///
/// # Errors
/// As [`open`], and if splits are named although `data.val_fraction` makes them.
pub fn splits_to_pack(
    mut data: DataConfig,
    splits: &[String],
) -> Result<Vec<(String, Source)>, DataError> {
    let divides = data.val_fraction > 0.0;
    if divides && !splits.is_empty() {
        return Err(SplitError::NamedAndDivided(splits.to_vec()).into());
    }
    let usual = [TRAIN[0], VAL[0]].map(str::to_owned);
    let splits = match splits {
        [] => &usual,
        named => named,
    };
    let is_parquet = match splits.first() {
        Some(first) if !divides => split_name(DataKind::Parquet, &data.path, first).is_some(),
        _ => is_whole(DataKind::Parquet, &data.path),
    };
    if is_parquet {
        data.kind = DataKind::Parquet;
    }
    if divides {
        return Ok(usual.into_iter().zip(open(&data, None)?).collect());
    }
    let mut sources: Vec<(String, Source)> = Vec::new();
    for name in splits {
        let classes = sources.first().map(|(_, first)| first.classes.as_slice());
        let source = open_split(&data, name, classes)?;
        sources.push((name.clone(), source));
    }
    Ok(sources)
}

/// Writes the splits (folder name and images) as shards of about `shard_bytes` to `out/<split>/000000.tar`, ..., with the
/// names of the classes next to them. `out` must not exist: it appears complete, or not at all. Removes what killed processes left
/// next to it.
///
/// The images keep their bytes and their order, so that training on the shards is bit-identical to training on the
/// folder. `progress` is called with the number of completed images.
///
/// # Errors
/// If an image cannot be read, or the file system fails.
pub fn pack(
    splits: &[(&str, &Source)],
    out: &Path,
    shard_bytes: u64,
    progress: &mut dyn FnMut(usize),
) -> Result<Packed, DataError> {
    if out.exists() {
        return Err(DataError::Exists(out.to_owned()));
    }
    write_folder(out, |root| {
        let mut packed = Packed::default();
        // All at first: a folder that is made later would bring back one that a signal has removed.
        for (name, _) in splits {
            fs::create_dir_all(root.join(name))?;
        }
        for (name, source) in splits {
            let dir = root.join(name);
            write_atomic(&dir.join(CLASSES), |file| {
                Ok(serde_json::to_writer_pretty(file, &source.classes)?)
            })?;
            packed.shards += pack_split(source, &dir, shard_bytes, &mut |done| {
                progress(packed.images + done);
            })?;
            packed.images += source.samples.len();
            sync_folder(&dir)?;
        }
        Ok(packed)
    })
}

/// Writes the shards of a split and returns their number.
fn pack_split(
    source: &Source,
    dir: &Path,
    shard_bytes: u64,
    progress: &mut dyn FnMut(usize),
) -> Result<usize, DataError> {
    let mut shards = 0;
    let mut shard: Option<(Shard, u64)> = None;
    for (index, sample) in source.samples.iter().enumerate() {
        let unreadable = |reason| sample.error(reason);
        let bytes = source
            .bytes(sample, ImageLimits::default())
            .map_err(unreadable)?;
        let ending = ending(&sample.path, &bytes).map_err(unreadable)?;
        if let Some((full, _)) = shard.take_if(|(_, size)| *size >= shard_bytes) {
            full.finish()?;
        }
        let (writer, size) = match &mut shard {
            Some(open) => open,
            none => {
                let path = dir.join(format!("{shards:06}.{SHARD}"));
                shards += 1;
                none.insert((Shard::create(path)?, 0))
            }
        };
        writer.add(&format!("{index:09}.{ending}"), &bytes)?;
        let label = sample.label.to_string();
        writer.add(&format!("{index:09}.{LABEL}"), label.as_bytes())?;
        *size += bytes.len() as u64;
        progress(index + 1);
    }
    if let Some((last, _)) = shard {
        last.finish()?;
    }
    Ok(shards)
}

/// The extension of an image: from its name, or from its format if it has no name, as in Parquet. An unsupported one would
/// leave a label without an image in the shard.
fn ending(path: &Path, bytes: &[u8]) -> Result<String, String> {
    let named = path.extension().unwrap_or_default();
    if !named.is_empty() {
        return Ok(named.to_string_lossy().to_ascii_lowercase());
    }
    let ending = format_of(bytes)?.extensions_str().first().copied();
    match ending.filter(|ending| listing::is_read(ending)) {
        Some(ending) => Ok(ending.to_owned()),
        None => Err(NOT_AN_IMAGE.to_owned()),
    }
}

/// A shard while it is being written.
struct Shard(tar::Builder<BufWriter<std::fs::File>>);

impl Shard {
    fn create(path: PathBuf) -> Result<Self, DataError> {
        let file = fs::File::create_new(path)?.into_file();
        Ok(Self(tar::Builder::new(BufWriter::new(file))))
    }

    /// Adds a file without its time and owner, so that the same images give the same shard.
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), DataError> {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        Ok(self.0.append_data(&mut header, name, bytes)?)
    }

    fn finish(self) -> Result<(), DataError> {
        let mut writer = self.0.into_inner()?;
        writer.flush()?;
        writer.get_ref().sync_all()?;
        Ok(())
    }
}
