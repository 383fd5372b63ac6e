//! The images of a source, one by one: their bytes, their pixels, what a model is given.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use image::RgbImage;
use kvt_ops::Key;

use super::cache::Cache;
use super::{Coding, Place, Sample, Source, cifar};
use crate::augment::{Look, Part, Transform};
use crate::decode::{decode_stored, dimensions, of_size, region};
use crate::file::{self, ImageLimits};
use crate::raster::Raster;
use crate::{ColorKind, DataError, DecodeError, Decoded, View, decode_bytes};

/// A decoded image, or the requested part of it.
#[derive(Debug, Clone)]
pub enum Picture {
    /// The whole image.
    Whole(Raster),
    /// A part.
    Part(Part),
}

impl Sample {
    /// The error that its image cannot be read, for this reason.
    pub(crate) fn error(&self, reason: String) -> DecodeError {
        let path = self.path.clone();
        DecodeError { path, reason }
    }
}

impl Source {
    /// The bytes of an image, as stored.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn bytes(&self, sample: &Sample, limits: ImageLimits) -> Result<Vec<u8>, String> {
        let (file, offset, length) = match sample.place {
            Place::File => return file::read(&sample.path, limits),
            Place::Row { file, row } => {
                let table = self.tables.get(file as usize).ok_or("no such file")?;
                let bytes = table.image(row)?;
                limits.check_bytes(bytes.len() as u64)?;
                return Ok(bytes);
            }
            Place::Within {
                file,
                offset,
                length,
            } => (file, offset, length),
        };
        limits.check_bytes(length)?;
        let path = self.files.get(file as usize).ok_or("no such file")?;
        let words = |error: std::io::Error| error.to_string();
        let mut bytes = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
        // Opened for each image: a data set may have more shards than the allowed number of open files.
        let mut file = File::open(path).map_err(words)?;
        file.seek(SeekFrom::Start(offset)).map_err(words)?;
        file.read_exact(&mut bytes).map_err(words)?;
        Ok(bytes)
    }

    /// Decodes the bytes of an image.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn picture(&self, bytes: &[u8], limits: ImageLimits) -> Result<Decoded, String> {
        match self.coding {
            Coding::File => decode_bytes(bytes, limits),
            Coding::Planes => Ok(Decoded {
                image: cifar::picture(bytes).ok_or("not a whole record")?,
                alpha: None,
                color: ColorKind::Rgb,
            }),
        }
    }

    /// Width and height of an image in pixels, from its first bytes and without decoding it; as stored, so that an image that is shown
    /// turned by its orientation has them the other way round.
    ///
    /// # Errors
    /// [`DecodeError`] with the path and the reason.
    pub fn size(&self, index: u32, limits: ImageLimits) -> Result<(u32, u32), DecodeError> {
        let size = |sample: &Sample| match self.coding {
            Coding::File => dimensions(&self.bytes(sample, limits)?),
            Coding::Planes => Ok((cifar::SIDE, cifar::SIDE)),
        };
        let sample = self.sample(index)?;
        size(sample).map_err(|reason| sample.error(reason))
    }

    /// The image of a sample as one for a model: transformed, with the draws of `key`.
    ///
    /// # Errors
    /// If it cannot be decoded or transformed, with its path.
    pub fn view(
        &self,
        index: u32,
        limits: ImageLimits,
        transform: &Transform,
        key: Key,
    ) -> Result<View, DataError> {
        let image = self.raster(index, limits)?;
        View::of(image, transform, key).map_err(|error| error.at(self.path_of(index)))
    }

    /// The whole image of a sample, from memory if it is kept there.
    ///
    /// # Errors
    /// [`DecodeError`] with the path and the reason.
    pub fn image(&self, index: u32, limits: ImageLimits) -> Result<RgbImage, DecodeError> {
        Ok(self.raster(index, limits)?.rgb)
    }

    /// As [`image`](Self::image), with the alpha if [`ImageLimits::alpha`] asks for it.
    ///
    /// # Errors
    /// [`DecodeError`] with the path and the reason.
    pub fn raster(&self, index: u32, limits: ImageLimits) -> Result<Raster, DecodeError> {
        match self.decode(index, limits, None)? {
            Picture::Whole(image) => Ok(image),
            Picture::Part(_) => Err(DecodeError {
                path: self.path_of(index),
                reason: "only a part was decoded".to_owned(),
            }),
        }
    }

    /// A sample by its index.
    pub(crate) fn sample(&self, index: u32) -> Result<&Sample, DecodeError> {
        let sample = self.samples.get(index as usize);
        sample.ok_or_else(|| DecodeError {
            path: self.root.clone(),
            reason: format!("there is no image {index}"),
        })
    }

    /// The path of a sample; that of all samples if there is no such sample.
    pub(crate) fn path_of(&self, index: u32) -> PathBuf {
        let sample = self.samples.get(index as usize);
        sample.map_or_else(|| self.root.clone(), |sample| sample.path.clone())
    }

    /// The image of a sample, from memory if it is kept there. With `look`, which returns the part that a transform uses of
    /// an image of (width, height), the result can be only this part, at a smaller size.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with the path and the reason.
    pub fn decode(
        &self,
        index: u32,
        limits: ImageLimits,
        look: Option<&dyn Fn((u32, u32)) -> Option<Look>>,
    ) -> Result<Picture, DecodeError> {
        // Beside masks and objects, it has images as these describe them, which may not be upright.
        let is_upright = !self.has_masks() && self.objects.is_none();
        let cache = self.cache.as_deref().filter(|_| is_upright);
        if let Some(image) = cache.and_then(|cache| cache.get(index)) {
            return Ok(Picture::Whole(image.clone()));
        }
        let sample = self.sample(index)?;
        let bytes = self.bytes(sample, limits);
        let picture = bytes.and_then(|bytes| self.look(&bytes, limits, look));
        let picture = picture.map_err(|reason| sample.error(reason))?;
        if let (Some(cache), Picture::Whole(image)) = (cache, &picture) {
            cache.keep(index, &image.rgb, image.alpha.as_ref());
        }
        Ok(picture)
    }

    /// Decodes the bytes of an image, or only the part that `look` returns if that is possible.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn look(
        &self,
        bytes: &[u8],
        limits: ImageLimits,
        look: Option<&dyn Fn((u32, u32)) -> Option<Look>>,
    ) -> Result<Picture, String> {
        if let (Some(look), Coding::File) = (look, self.coding)
            && let Some(part) = region::decode(bytes, limits, look)
        {
            return Ok(Picture::Part(part));
        }
        Ok(Picture::Whole(self.picture(bytes, limits)?.into()))
    }

    /// Keeps decoded images in memory while `left`, which several sources can share, has bytes left.
    pub fn cached(self, left: &Arc<AtomicU64>) -> Self {
        let cache = Cache::new(self.samples.len(), Arc::clone(left));
        Self {
            cache: Some(Arc::new(cache)),
            ..self
        }
    }

    /// The image of a sample as its annotation in `file` describes it: of (width, height), turned by its orientation only where this
    /// makes it so.
    pub(super) fn image_of_size(
        &self,
        index: u32,
        size: (u32, u32),
        limits: ImageLimits,
        file: &Path,
    ) -> Result<RgbImage, String> {
        let sample = self.sample(index).map_err(|error| error.reason)?;
        let cache = self.cache.as_deref();
        if let Some(image) = cache.and_then(|cache| cache.get(index))
            && image.rgb.dimensions() == size
        {
            return Ok(image.rgb.clone());
        }
        let stored = decode_stored(&self.bytes(sample, limits)?, limits)?;
        let image = of_size(stored, size);
        let image = image.map_err(|reason| format!("{reason}, in `{}`", file.display()))?;
        if let Some(cache) = cache {
            cache.keep(index, &image, None);
        }
        Ok(image)
    }

    /// The stored size of an image in bytes; in Parquet, that of its page; for a dead link, more than any file has.
    pub(crate) fn stored_bytes(&self, sample: &Sample) -> u64 {
        match sample.place {
            Place::File => std::fs::metadata(&sample.path).map_or(u64::MAX, |found| found.len()),
            Place::Within { length, .. } => length,
            Place::Row { file, row } => {
                let table = self.tables.get(file as usize);
                table.map_or(0, |table| table.stored(row))
            }
        }
    }
}
