//! The JSON of an annotation file, read once and piece by piece: the file of COCO's training images has 448 MB.

use std::io::{self, BufRead as _, BufReader, Read};

use serde::{Deserialize, Deserializer, Serialize};

use super::{Category, segmentation};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;
/// What some programs begin a text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A whole file. Other keys are passed over.
#[derive(Deserialize)]
pub(super) struct File {
    pub(super) images: Vec<Image>,
    #[serde(default)]
    pub(super) annotations: Vec<Annotation>,
    #[serde(default)]
    pub(super) categories: Vec<Category>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: u64,
    pub(crate) file_name: String,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

#[derive(Deserialize)]
pub(super) struct Annotation {
    pub(super) id: u64,
    pub(super) image_id: u64,
    pub(super) category_id: u64,
    #[serde(default = "no_sides", deserialize_with = "sides")]
    pub(super) bbox: Sides,
    pub(super) area: Option<f64>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) iscrowd: bool,
    #[serde(default, deserialize_with = "flag")]
    pub(super) ignore: bool,
    #[serde(default)]
    pub(super) segmentation: segmentation::Read,
}

/// `[x, y, width, height]`, or how many numbers there are instead: what is wrong is said once the annotation's id is known.
type Sides = Result<[f64; 4], usize>;

fn sides<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sides, D::Error> {
    let numbers: Option<Vec<f64>> = Option::deserialize(deserializer)?;
    let sides: Result<[f64; 4], Vec<f64>> = numbers.unwrap_or_default().try_into();
    Ok(sides.map_err(|numbers| numbers.len()))
}

fn no_sides() -> Sides {
    Err(0)
}

/// 0 or 1 in COCO, `false` or `true` in other files.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected 0 or 1")]
enum Flag {
    Number(u64),
    Truth(bool),
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let flag: Option<Flag> = Option::deserialize(deserializer)?;
    Ok(flag.is_some_and(|flag| match flag {
        Flag::Number(number) => number != 0,
        Flag::Truth(is_set) => is_set,
    }))
}

/// The content of a file, and the BLAKE3 of its bytes.
pub(super) fn read(reader: impl Read) -> Result<(File, [u8; 32]), serde_json::Error> {
    let mut hashed = Hashed {
        reader,
        hash: blake3::Hasher::new(),
    };
    let mut reader = BufReader::with_capacity(BUFFER, &mut hashed);
    // What cannot be read is an error again below.
    if reader
        .fill_buf()
        .is_ok_and(|start| start.starts_with(BYTE_ORDER_MARK))
    {
        reader.consume(BYTE_ORDER_MARK.len());
    }
    let file = serde_json::from_reader(reader)?;
    Ok((file, *hashed.hash.finalize().as_bytes()))
}

/// Hashes what is read.
struct Hashed<R> {
    reader: R,
    hash: blake3::Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
