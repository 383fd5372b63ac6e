//! The mask of an object in the three forms that COCO has for it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Fault;
use super::polygon::Polygon;
use super::rle::Rle;

/// Where an object is, in little memory: pixels are only computed when they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segmentation {
    /// Nowhere but in its box.
    None,
    /// The parts of the object.
    Polygons(Box<[Polygon]>),
    /// Runs of pixels outside and inside.
    Runs {
        /// Height and width of the image.
        size: (u32, u32),
        /// The runs.
        counts: Box<[u32]>,
    },
    /// The same, compressed.
    Text {
        /// Height and width of the image.
        size: (u32, u32),
        /// The text.
        counts: Box<str>,
    },
}

impl Segmentation {
    /// Whether there is only a box.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The pixels of an image of `(height, width)`; `None` if there is only a box.
    ///
    /// # Errors
    /// If the runs are of another image, or do not cover it.
    pub fn mask(&self, image: (u32, u32)) -> Result<Option<Rle>, Fault> {
        match self {
            Self::None => Ok(None),
            Self::Polygons(parts) => {
                let parts: Vec<Rle> = parts.iter().map(|part| part.mask(image)).collect();
                let parts = parts.split_first();
                Ok(parts.map(|(first, rest)| first.union(rest)))
            }
            &(Self::Runs { size: found, .. } | Self::Text { size: found, .. })
                if found != image =>
            {
                Err(Fault::Size { found, image })
            }
            Self::Runs { counts, .. } => Ok(Some(Rle::new(image, counts.to_vec())?)),
            Self::Text { counts, .. } => Ok(Some(Rle::from_text(image, counts)?)),
        }
    }

    /// Whether [`mask`](Self::mask) has no errors, without drawing polygons, whose errors are found when they are read.
    pub(super) fn check(&self, image: (u32, u32)) -> Result<(), Fault> {
        match self {
            Self::None | Self::Polygons(_) => Ok(()),
            Self::Runs { .. } | Self::Text { .. } => self.mask(image).map(drop),
        }
    }
}

/// A segmentation as the file has it. What is wrong with it is said once the annotation's id is known.
pub(super) struct Read(pub(super) Result<Segmentation, Fault>);

impl Default for Read {
    fn default() -> Self {
        Self(Ok(Segmentation::None))
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms)
    }
}

struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("polygons, or runs with `size` and `counts`")
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Read::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Read, A::Error> {
        let mut polygons = Vec::new();
        let mut fault = None;
        while let Some(Part(part)) = parts.next_element()? {
            match part {
                Ok(polygon) => polygons.push(polygon),
                Err(found) => drop(fault.get_or_insert(found)),
            }
        }
        Ok(Read(match fault {
            Some(fault) => Err(fault),
            None if polygons.is_empty() => Ok(Segmentation::None),
            None => Ok(Segmentation::Polygons(polygons.into())),
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        let (mut size, mut counts) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "size" => size = Some(map.next_value()?),
                "counts" => counts = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Read(match (size, counts) {
            (None, _) => Err(Fault::Lacks("size")),
            (_, None) => Err(Fault::Lacks("counts")),
            (Some(size), Some(Counts::Runs(counts))) => {
                counts.map(|counts| Segmentation::Runs { size, counts })
            }
            (Some(size), Some(Counts::Text(counts))) => Ok(Segmentation::Text { size, counts }),
        }))
    }
}

/// One of the polygons.
struct Part(Result<Polygon, Fault>);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Corners;

        impl<'de> Visitor<'de> for Corners {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a polygon, `[x, y, x, y, x, y]`")
            }

            fn visit_u64<E>(self, _: u64) -> Result<Part, E> {
                Ok(Part(Err(Fault::Flat)))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Part, E> {
                Ok(Part(Err(Fault::Flat)))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Part, E> {
                Ok(Part(Err(Fault::Flat)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Part, A::Error> {
                let mut coordinates: Vec<f64> = Vec::new();
                while let Some(number) = numbers.next_element()? {
                    coordinates.push(number);
                }
                Ok(Part(Polygon::new(&coordinates)))
            }
        }

        deserializer.deserialize_any(Corners)
    }
}

/// Runs, compressed or not.
enum Counts {
    Runs(Result<Box<[u32]>, Fault>),
    Text(Box<str>),
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("runs, or their compressed text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Counts, E> {
                Ok(Counts::Text(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                let (mut position, mut fault) = (0, None);
                while let Some(value) = numbers.next_element::<f64>()? {
                    let count = value as u32;
                    if f64::from(count) == value {
                        counts.push(count);
                    } else {
                        fault.get_or_insert(Fault::Count { position, value });
                    }
                    position += 1;
                }
                Ok(Counts::Runs(match fault {
                    Some(fault) => Err(fault),
                    None => Ok(counts.into()),
                }))
            }
        }

        deserializer.deserialize_any(Forms)
    }
}
