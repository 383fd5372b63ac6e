//! The union of masks: an object can have several parts.

use super::Rle;

impl Rle {
    /// The pixels that are inside of this mask or of any of the others, of the same image. Without others it keeps its runs.
    pub(crate) fn union(&self, others: &[Self]) -> Self {
        if others.is_empty() {
            return self.clone();
        }
        let masks = std::iter::once(self).chain(others);
        let mut spans: Vec<(u32, u32)> = masks.flat_map(|mask| mask.spans()).collect();
        spans.sort_unstable();
        let mut spans = spans.into_iter().peekable();
        let mut counts = Vec::new();
        let mut at = 0;
        while let Some((start, count)) = spans.next() {
            let mut end = start + count;
            while let Some((next, count)) = spans.next_if(|(next, _)| *next <= end) {
                end = end.max(next + count);
            }
            counts.extend([start - at, end - start]);
            at = end;
        }
        // Runs end with the image, without an empty one. A mask without pixels has the one outside.
        let pixels = self.size.0 * self.size.1;
        if at < pixels || counts.is_empty() {
            counts.push(pixels - at);
        }
        Self {
            size: self.size,
            counts,
        }
    }
}
