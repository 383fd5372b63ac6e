//! The union of masks: an object can have several parts.

use std::iter::Peekable;

use super::{Rle, RleError};

impl Rle {
    /// The pixels that are inside of this mask or of any of the others. Without others it keeps its runs.
    ///
    /// # Errors
    /// If their images differ in size.
    pub fn union(&self, others: &[Self]) -> Result<Self, RleError> {
        let mut union = self.clone();
        for other in others {
            if other.size != self.size {
                return Err(RleError::Sizes {
                    first: self.size,
                    other: other.size,
                });
            }
            union = union.united(other);
        }
        Ok(union)
    }

    fn united(&self, other: &Self) -> Self {
        let pixels = self.size.0 * self.size.1;
        let mut spans = merged(self.spans(), other.spans());
        let mut counts = Vec::new();
        let (mut at, mut open) = (0, spans.next());
        while let Some((start, mut end)) = open {
            open = spans.next();
            while let Some((_, next)) = open.filter(|(start, _)| *start <= end) {
                end = end.max(next);
                open = spans.next();
            }
            counts.extend([start - at, end - start]);
            at = end;
        }
        // Runs end with the image, without an empty one. A mask without pixels has the one outside.
        if at < pixels || counts.is_empty() {
            counts.push(pixels - at);
        }
        Self {
            size: self.size,
            counts,
        }
    }
}

/// Start and end of the runs of both, in the order of their starts.
fn merged(
    ours: impl Iterator<Item = (u32, u32)>,
    theirs: impl Iterator<Item = (u32, u32)>,
) -> impl Iterator<Item = (u32, u32)> {
    let mut ours: Peekable<_> = ours.peekable();
    let mut theirs: Peekable<_> = theirs.peekable();
    std::iter::from_fn(move || {
        let run = match (ours.peek(), theirs.peek()) {
            (Some(a), Some(b)) if b.0 < a.0 => theirs.next(),
            (Some(_), _) => ours.next(),
            (None, _) => theirs.next(),
        };
        run.map(|(start, count)| (start, start + count))
    })
}
