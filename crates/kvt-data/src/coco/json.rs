//! The JSON of an annotation file, read once and piece by piece: the file of COCO's training images has 448 MB.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

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
    #[serde(default)]
    pub(super) bbox: Sides,
    pub(super) area: Option<f64>,
    #[serde(default)]
    pub(super) iscrowd: Flag,
    #[serde(default)]
    pub(super) ignore: Flag,
    #[serde(default)]
    pub(super) segmentation: segmentation::Read,
}

/// `[x, y, width, height]`, or how many numbers there are instead: what is wrong is said once the annotation's id is known.
pub(super) struct Sides(pub(super) Result<[f64; 4], usize>);

impl Default for Sides {
    fn default() -> Self {
        Self(Err(0))
    }
}

impl<'de> Deserialize<'de> for Sides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Sides;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`[x, y, width, height]`")
            }

            fn visit_unit<E>(self) -> Result<Sides, E> {
                Ok(Sides::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sides, A::Error> {
                let (mut sides, mut count) = ([0.0; 4], 0);
                while let Some(number) = list.next_element::<f64>()? {
                    if let Some(side) = sides.get_mut(count) {
                        *side = number;
                    }
                    count += 1;
                }
                let is_box = count == sides.len();
                Ok(Sides(if is_box { Ok(sides) } else { Err(count) }))
            }
        }

        deserializer.deserialize_any(List)
    }
}

/// 0 or 1 in COCO, `false` or `true` in other files.
#[derive(Clone, Copy, Default)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("0 or 1")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Flag, E> {
                Ok(Flag(value != 0))
            }

            fn visit_unit<E>(self) -> Result<Flag, E> {
                Ok(Flag(false))
            }
        }

        deserializer.deserialize_any(Either)
    }
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
