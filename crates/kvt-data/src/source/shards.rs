//! Tar shards in the layout of WebDataset: the files of a sample follow each other and share the name up to its first
//! dot, `000012.jpg` and `000012.cls`, the label as a decimal number. A hard link is the earlier file of the shard that it
//! names. Other regular files are counted; a link or a device that could be an image or a label is an error.
//!
//! The headers are read once. Then every image is read independently from its shard, so that an epoch can visit the
//! images in any order, each once, and continue in the middle.

mod fault;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tar::{Archive, Entry, EntryType};

pub use self::fault::ShardFault;
use super::{Place, Sample, Source, classes, within};
use crate::listing::OtherFormats;
use crate::regular;
use crate::text::{LARGEST_LIST, read_text};
use crate::{DataError, listing};

/// The names of the classes in label order, a JSON list in the folder of the shards.
pub(crate) const CLASSES: &str = "classes.json";
/// The extension of a shard.
pub(crate) const SHARD: &str = "tar";
/// The extension of a label.
pub(crate) const LABEL: &str = "cls";
/// Maximum length of a label in bytes.
const LABEL_BYTES: u64 = 32;
/// Maximum number of classes without a list of names.
pub(super) const MAX_CLASSES: u32 = 1 << 20;
/// Length of a block in bytes. An archive ends with two blocks of zeros.
const BLOCK: u64 = 512;

/// Whether a folder contains shards.
pub(super) fn is_here(dir: &Path) -> bool {
    !files(dir).is_empty()
}

/// The images of the shards in a folder, in the order of the shards' names and of their positions. Without a list of names
/// in the folder, the classes are `names`, or otherwise the numbers up to the largest label.
pub(super) fn open(dir: &Path, names: Option<&[String]>) -> Result<Source, DataError> {
    let files = files(dir);
    if files.is_empty() {
        return Err(DataError::NoShards(dir.to_owned()));
    }
    let list = dir.join(CLASSES);
    let known = match names {
        // A dead link is there, too.
        _ if list.symlink_metadata().is_ok() => Some(read_classes(&list)?),
        names => names.map(<[String]>::to_vec),
    };
    let count = known.as_ref().map(Vec::len);
    let shards = files.par_iter().enumerate();
    let found = shards.map(|(number, shard)| index(shard, number as u32, count));
    let [mut others, mut beside] = [OtherFormats::default(), OtherFormats::default()];
    let mut samples = Vec::new();
    for found in found.collect::<Result<Vec<_>, DataError>>()? {
        samples.extend(found.samples);
        others.merge(found.others);
        beside.merge(found.beside);
    }
    let is_numbered = known.is_none();
    let classes = match known {
        Some(known) => known,
        None => numbers(list, &samples)?,
    };
    Ok(Source {
        files,
        others,
        beside,
        is_numbered,
        ..Source::new(dir.to_owned(), classes, samples)?
    })
}

/// The shards of a folder, ordered by the bytes of their names.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    listing::with_ending(dir, SHARD)
}

fn read_classes(path: &Path) -> Result<Vec<String>, DataError> {
    serde_json::from_str(&read_text(path, LARGEST_LIST)?).map_err(|error| {
        DataError::records(path, format!("it is no JSON list of class names: {error}"))
    })
}

/// The numbers up to the largest label, where there is no `list` of names.
fn numbers(list: PathBuf, samples: &[Sample]) -> Result<Vec<String>, DataError> {
    let largest = samples.iter().map(|sample| sample.label).max();
    let count = largest.map_or(0, |label| label.saturating_add(1));
    // An identifier is not a class number, and would need a list of billions of names.
    if count > MAX_CLASSES {
        let reason = format!(
            "there is no such list, and a label is {}: number the classes from 0, or write their names to this file",
            count - 1
        );
        return Err(DataError::records(list, reason));
    }
    Ok(classes::numbers(count as usize))
}

/// What is wrong with a shard, and in which member.
type Fault = (Option<String>, ShardFault);

/// The files of a sample found so far.
#[derive(Default)]
struct Parts {
    key: String,
    image: Option<(String, u64, u64)>,
    /// Its file name and its text.
    label: Option<(String, String)>,
}

impl Parts {
    /// The image with its label, which is one of so many classes if their number is known; `None` if the sample has neither. The shard
    /// is one of [`Source::files`].
    fn finish(
        self,
        (shard, file): (&Path, u32),
        classes: Option<usize>,
    ) -> Result<Option<Sample>, Fault> {
        let ((name, offset, length), text) = match (self.image, self.label) {
            (Some(image), Some((_, text))) => (image, text),
            (Some((name, ..)), None) => return Err((Some(name), ShardFault::NoLabel)),
            (None, Some((name, _))) => return Err((Some(name), ShardFault::NoImage)),
            (None, None) => return Ok(None),
        };
        let text = text.trim();
        let is_class = |label: &u32| classes.is_none_or(|count| (*label as usize) < count);
        let Some(label) = text.parse::<u32>().ok().filter(is_class) else {
            let label = text.to_owned();
            return Err((Some(name), ShardFault::Label { label, classes }));
        };
        Ok(Some(Sample {
            path: within(shard, &name),
            label,
            place: Place::Within {
                file,
                offset,
                length,
            },
        }))
    }
}

/// What a shard contains.
#[derive(Default)]
struct Index {
    samples: Vec<Sample>,
    /// Images that are not read.
    others: OtherFormats,
    /// Files that are neither an image nor a label.
    beside: OtherFormats,
}

/// The images of a shard, from its headers. Their labels are of so many classes, if their number is known.
fn index(shard: &Path, number: u32, classes: Option<usize>) -> Result<Index, DataError> {
    let open = || regular::open(shard).map_err(|error| regular::named(shard, &error));
    // The labels are read at a position of their own.
    let found = Index::read((shard, number), open()?, &mut open()?, classes);
    found.map_err(|(member, fault)| DataError::Shard {
        shard: shard.to_owned(),
        member,
        fault,
    })
}

impl Index {
    fn read(
        shard: (&Path, u32),
        file: File,
        labels: &mut File,
        classes: Option<usize>,
    ) -> Result<Self, Fault> {
        let whole = |fault| -> Fault { (None, fault) };
        let damaged = |error: io::Error| whole(ShardFault::Damaged(error.to_string()));
        let length = file.metadata().map_err(damaged)?.len();
        let mut archive = Archive::new(file);
        let mut found = Self::default();
        let mut parts = Parts::default();
        // Where the files are that a link may name.
        let mut places: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
        for entry in archive.entries_with_seek().map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let (offset, size) = (entry.raw_file_position(), entry.size());
            if offset.checked_add(size).is_none_or(|end| end > length) {
                return Err((Some(name), ShardFault::Truncated));
            }
            let place = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => Ok((offset, size)),
                EntryType::Link => linked(&entry, &places),
                EntryType::Symlink => Err(format!("a symbolic link to `{}`", target(&entry))),
                _ => Err("not a regular file".to_owned()),
            };
            if let Ok(place) = place {
                places.insert(entry.path_bytes().into_owned(), place);
            }
            let Some((key, ending)) = key_and_ending(&name) else {
                continue;
            };
            let (is_label, is_image) = (ending == LABEL, listing::is_read(&ending));
            let (offset, size) = match place {
                Ok(place) => place,
                Err(what) if is_label || is_image => {
                    return Err((Some(name), ShardFault::NotAFile(what)));
                }
                Err(_) => continue,
            };
            if key != parts.key {
                let before = std::mem::take(&mut parts);
                found.samples.extend(before.finish(shard, classes)?);
                parts.key = key;
            }
            if is_label {
                let text = label(labels, offset, size);
                let text = text.map_err(|fault| (Some(name.clone()), fault))?;
                if parts.label.is_some() {
                    return Err((Some(name), ShardFault::Second("label")));
                }
                parts.label = Some((name, text));
            } else if is_image {
                if parts.image.is_some() {
                    return Err((Some(name), ShardFault::Second("image")));
                }
                parts.image = Some((name, offset, size));
            } else {
                found.pass_over(ending, within(shard.0, &name));
            }
        }
        found.samples.extend(parts.finish(shard, classes)?);
        check_end(&mut archive.into_inner()).map_err(whole)?;
        Ok(found)
    }

    /// Counts a file that is not read.
    fn pass_over(&mut self, ending: String, path: PathBuf) {
        // `3.seg.png` can be read, but is not the image of the sample.
        let last = ending.rsplit('.').next().unwrap_or_default();
        if listing::is_other_format(last) {
            self.others.add(ending, 1, path);
        } else {
            self.beside.add(ending, 1, path);
        }
    }
}

/// The name that a link contains.
fn target<R: Read>(entry: &Entry<'_, R>) -> String {
    let target = entry.link_name_bytes().unwrap_or_default();
    String::from_utf8_lossy(&target).into_owned()
}

/// The place of the file that a hard link names.
fn linked<R: Read>(
    entry: &Entry<'_, R>,
    places: &HashMap<Vec<u8>, (u64, u64)>,
) -> Result<(u64, u64), String> {
    let place = places.get(&*entry.link_name_bytes().unwrap_or_default());
    place.copied().ok_or_else(|| {
        let target = target(entry);
        format!("a hard link to `{target}`, which is no file before it in the shard")
    })
}

/// The text of a label.
fn label(shard: &mut File, offset: u64, size: u64) -> Result<String, ShardFault> {
    if size > LABEL_BYTES {
        return Err(ShardFault::LongLabel(size));
    }
    let mut text = String::new();
    let place = shard.seek(SeekFrom::Start(offset));
    let read = place.and_then(|_| shard.take(size).read_to_string(&mut text));
    read.map_err(|error| ShardFault::Damaged(error.to_string()))?;
    Ok(text)
}

/// The shared name of a sample's files, and the rest in lower case; `None` for a hidden file and one without a dot.
fn key_and_ending(name: &str) -> Option<(String, String)> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let (stem, ending) = file.split_once('.')?;
    (!stem.is_empty()).then(|| (format!("{folder}/{stem}"), ending.to_ascii_lowercase()))
}

/// Checks what follows the last member: at least two blocks of zeros, and nothing else. Truncated after a sample, a shard would
/// be a valid archive without them; what is after them would never be read.
fn check_end(shard: &mut File) -> Result<(), ShardFault> {
    let damaged = |error: io::Error| ShardFault::Damaged(error.to_string());
    // The reader of the archive has read the first of the blocks, or it is at the end of the file.
    let start = shard.stream_position().map_err(damaged)?;
    let mut at = start;
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = shard.read(&mut bytes).map_err(damaged)?;
        if let Some(other) = bytes[..read].iter().position(|&byte| byte != 0) {
            return Err(ShardFault::Behind(at + other as u64));
        }
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    if at - start < BLOCK {
        return Err(ShardFault::NoEnd);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
