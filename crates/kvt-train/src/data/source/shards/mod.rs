//! Tar shards in the layout of WebDataset: the files of a sample follow each other and share the name up to its first
//! dot, `000012.jpg` and `000012.cls`, the label as a decimal number.
//!
//! The headers are read once. Then every image is read independently from its shard, so that an epoch can visit the
//! images in any order, each once, and continue in the middle.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rayon::prelude::*;
use tar::{Archive, EntryType};

use super::{Place, Sample, Source, within};
use crate::data::{DataError, ShardFault, listing};
use crate::text::{LARGEST_LIST, read_text};

/// The names of the classes in label order, a JSON list in the folder of the shards.
pub(in crate::data) const CLASSES: &str = "classes.json";
/// The extension of a shard.
pub(in crate::data) const SHARD: &str = "tar";
/// The extension of a label.
pub(in crate::data) const LABEL: &str = "cls";
/// Maximum length of a label in bytes.
const LABEL_BYTES: u64 = 32;
/// An archive ends with two blocks of zeros.
const END: i64 = 1024;

/// Whether a folder contains shards.
pub(super) fn is_here(dir: &Path) -> bool {
    shards(dir).is_ok_and(|shards| !shards.is_empty())
}

/// The images of the shards in a folder, in the order of the shards' names and of their positions. Without a list of names
/// in the folder, the classes are `names`, or otherwise the numbers up to the largest label.
pub(super) fn open(dir: &Path, names: Option<&[String]>) -> Result<Source, DataError> {
    let files = match shards(dir) {
        Ok(files) if !files.is_empty() => files,
        _ => return Err(DataError::NoShards(dir.to_owned())),
    };
    let members: Result<Vec<Vec<Member>>, DataError> =
        files.par_iter().map(|shard| index(shard)).collect();
    let members = members?;
    let list = dir.join(CLASSES);
    let classes = match (names, list.exists()) {
        (_, true) => read_classes(&list)?,
        (Some(names), false) => names.to_vec(),
        (None, false) => {
            let labels = members.iter().flatten().map(|member| member.label);
            let count = labels.max().map_or(0, |label| label.saturating_add(1));
            // An identifier is not a class number, and would need a list of billions of names.
            if count > MAX_CLASSES {
                return Err(DataError::ClassList {
                    path: list,
                    reason: format!(
                        "there is none, and a label is {}: number the classes from 0, or write their names to this file",
                        count - 1
                    ),
                });
            }
            (0..count).map(|label| label.to_string()).collect()
        }
    };
    let mut samples = Vec::new();
    for (number, (shard, members)) in (0..).zip(files.iter().zip(members)) {
        for member in members {
            if member.label as usize >= classes.len() {
                return Err(DataError::Shard {
                    shard: shard.clone(),
                    member: Some(member.name),
                    fault: ShardFault::Label {
                        label: member.label.to_string(),
                        classes: Some(classes.len()),
                    },
                });
            }
            samples.push(Sample {
                path: within(shard, &member.name),
                label: member.label,
                place: Place::Within {
                    file: number,
                    offset: member.offset,
                    length: member.length,
                },
            });
        }
    }
    Ok(Source {
        files,
        is_numbered: names.is_none() && !list.exists(),
        ..Source::new(dir.to_owned(), classes, samples)?
    })
}

/// The shards of a folder, ordered by the bytes of their names.
fn shards(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut shards = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_shard = path.extension().is_some_and(|ending| ending == SHARD);
        if is_shard && !listing::is_hidden(path.file_name().unwrap_or_default()) {
            shards.push(path);
        }
    }
    shards.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(shards)
}

fn read_classes(path: &Path) -> Result<Vec<String>, DataError> {
    let refused = |reason| DataError::ClassList {
        path: path.to_owned(),
        reason,
    };
    let text = read_text(path, LARGEST_LIST)?;
    let classes: Vec<String> =
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    // Labels are matched by name.
    let mut known = HashSet::new();
    match classes.iter().find(|class| !known.insert(class.as_str())) {
        Some(twice) => Err(refused(format!("`{twice}` stands there twice"))),
        None => Ok(classes),
    }
}

/// Maximum number of classes without a list of names.
pub(super) const MAX_CLASSES: u32 = 1 << 20;

/// An image in a shard.
struct Member {
    name: String,
    offset: u64,
    length: u64,
    label: u32,
}

/// The files of a sample found so far.
#[derive(Default)]
struct Parts {
    key: String,
    image: Option<(String, u64, u64)>,
    /// Its file name and its text.
    label: Option<(String, String)>,
}

impl Parts {
    /// The image with its label; `None` if the sample has neither.
    fn finish(self) -> Result<Option<Member>, (String, ShardFault)> {
        match (self.image, self.label) {
            (Some((name, offset, length)), Some((_, text))) => {
                let label = text.trim();
                let Ok(label) = label.parse() else {
                    let label = label.to_owned();
                    let classes = None;
                    return Err((name, ShardFault::Label { label, classes }));
                };
                Ok(Some(Member {
                    name,
                    offset,
                    length,
                    label,
                }))
            }
            (Some((name, ..)), None) => Err((name, ShardFault::NoLabel)),
            (None, Some((name, _))) => Err((name, ShardFault::NoImage)),
            (None, None) => Ok(None),
        }
    }
}

/// The images of a shard, from its headers.
fn index(shard: &Path) -> Result<Vec<Member>, DataError> {
    let fault = |member: Option<String>, fault| DataError::Shard {
        shard: shard.to_owned(),
        member,
        fault,
    };
    let damaged = |error: std::io::Error| fault(None, ShardFault::Damaged(error.to_string()));
    let metadata = fs::metadata(shard)?;
    if !metadata.is_file() {
        return Err(damaged(std::io::Error::other("not a file")));
    }
    let length = metadata.len();
    let mut archive = Archive::new(fs::File::open(shard)?.into_file());
    let mut members = Vec::new();
    let mut parts = Parts::default();
    for entry in archive.entries_with_seek().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let (offset, size) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(fault(Some(name), ShardFault::Truncated));
        }
        let is_file = matches!(
            entry.header().entry_type(),
            EntryType::Regular | EntryType::Continuous
        );
        let Some((key, ending)) = is_file.then(|| key_and_ending(&name)).flatten() else {
            continue;
        };
        if key != parts.key {
            let whole = std::mem::take(&mut parts).finish();
            members.extend(whole.map_err(|(name, what)| fault(Some(name), what))?);
            parts.key = key;
        }
        if ending == LABEL {
            let mut text = String::new();
            let read = entry.by_ref().take(LABEL_BYTES).read_to_string(&mut text);
            read.map_err(|error| {
                fault(Some(name.clone()), ShardFault::Damaged(error.to_string()))
            })?;
            parts.label = Some((name, text));
        } else if listing::is_read(&ending) {
            if parts.image.is_some() {
                return Err(fault(Some(name), ShardFault::TwoImages));
            }
            parts.image = Some((name, offset, size));
        }
    }
    let whole = parts.finish();
    members.extend(whole.map_err(|(name, what)| fault(Some(name), what))?);
    if !has_end(&mut archive.into_inner()).map_err(damaged)? {
        return Err(fault(None, ShardFault::NoEnd));
    }
    Ok(members)
}

/// The shared name of a sample's files, and the rest in lower case; `None` for a hidden file and one without a dot.
fn key_and_ending(name: &str) -> Option<(String, String)> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let (stem, ending) = file.split_once('.')?;
    (!stem.is_empty()).then(|| (format!("{folder}/{stem}"), ending.to_ascii_lowercase()))
}

/// Whether a shard has the two blocks of zeros at its end. Truncated after a sample, it would be a valid archive
/// without them.
fn has_end(file: &mut File) -> std::io::Result<bool> {
    let mut end = Vec::new();
    if file.seek(SeekFrom::End(0))? < END as u64 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-END))?;
    file.read_to_end(&mut end)?;
    Ok(end.iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests;
