//! A model for small images, which are not worth 224 pixels.
//!
//! Model and recipe are those of `configs/cifar10/base.toml`, with which the results on CIFAR-10 were measured.

use toml::{Table, Value, toml};

/// The longest side in pixels of an image that is small.
const SMALL_SIDE: u32 = 96;
/// The shortest side of a model's images: 16 patches of 4 pixels.
const LEAST_SIDE: u32 = 16;
/// The side from which patches have 8 pixels, so that there are not many more than a hundred.
const LARGE_PATCHES: u32 = 48;

/// The model for images of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small {
    /// Shorter side of the images.
    side: u32,
    /// Side of the model's images: the nearest that consists of whole patches.
    img_size: u32,
    patch_size: u32,
}

impl Small {
    /// For images whose shorter side has this length; `None` if they are not small.
    pub(super) fn of(side: u32) -> Option<Self> {
        if side > SMALL_SIDE {
            return None;
        }
        let patch_size = if side < LARGE_PATCHES { 4 } else { 8 };
        let patches = (side + patch_size / 2) / patch_size;
        Some(Self {
            side,
            img_size: (patches * patch_size).max(LEAST_SIDE),
            patch_size,
        })
    }

    /// The keys of `[model]`.
    pub(super) fn model(self, name: &str) -> Table {
        let mut keys = toml! {
            embed_dim = 128
            depth = 3
            num_heads = 4
        };
        keys.insert("name".to_owned(), name.into());
        for (key, size) in [("img_size", self.img_size), ("patch_size", self.patch_size)] {
            keys.insert(key.to_owned(), Value::from(i64::from(size)));
        }
        keys
    }

    /// The keys of `[augment]`: a crop that keeps nearly all of the few pixels.
    pub(super) fn augment() -> Table {
        toml! { preset = "cifar" }
    }

    /// The model in words.
    pub(super) fn describe(self) -> String {
        let Self {
            side,
            img_size,
            patch_size,
        } = self;
        format!(
            "made small for images of {side} px: {img_size} px in patches of {patch_size}, 3 blocks of 128 channels"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_about_a_hundred_whole_patches() {
        let sizes = |side| Small::of(side).map(|small| (small.img_size, small.patch_size));
        for (side, expected) in [
            (1, (16, 4)),
            (28, (28, 4)),
            (30, (32, 4)),
            (32, (32, 4)),
            (47, (48, 4)),
            (48, (48, 8)),
            (64, (64, 8)),
            (96, (96, 8)),
        ] {
            assert_eq!(sizes(side), Some(expected), "{side}");
        }
        assert_eq!(sizes(97), None);
    }
}
