//! The container of a WebP file.

/// The container, without bytes after it, which libwebp passes over too. `None` if the file ends within it, or the container
/// within a chunk: the decoder allocates a chunk at the size that it claims.
pub(super) fn container(bytes: &[u8]) -> Option<&[u8]> {
    let size = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    let container = bytes.get(..usize::try_from(size).ok()?.checked_add(8)?)?;
    let mut rest = chunks(container);
    rest.by_ref().for_each(drop);
    rest.is_whole.then_some(container)
}

/// The chunks of a container.
pub(super) fn chunks(container: &[u8]) -> Chunks<'_> {
    Chunks {
        // `RIFF`, the size, `WEBP`.
        rest: container.get(12..).unwrap_or_default(),
        is_whole: true,
    }
}

/// Names and contents.
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
    is_whole: bool,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = ([u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, body) = self.rest.split_first_chunk::<8>()?;
        let [a, b, c, d, size @ ..] = *header;
        let size = u32::from_le_bytes(size) as usize;
        let Some(content) = body.get(..size) else {
            self.is_whole = false;
            return None;
        };
        // Chunks begin at even offsets; the last one may lack its padding byte.
        self.rest = body.get(size + size % 2..).unwrap_or_default();
        Some(([a, b, c, d], content))
    }
}
