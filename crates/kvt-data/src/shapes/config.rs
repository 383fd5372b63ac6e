//! `[data.shapes]`: what is generated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figure, ShapesError};
use crate::schema::{self, section};
use crate::{DataError, Split};
use kvt_ops::Key;

section! {
    /// The generated data set.
    pub struct ShapesConfig {
        /// A folder of images for each class, one shape in an image, or scenes of several shapes with masks and annotations.
        pub layout: Layout = Layout::Folder;
        /// Height and width of an image in pixels.
        pub image_size: u32 = 32, "x-range" = "[8, 1024]";
        /// Number of classes: the first so many shapes.
        pub classes: usize = 10, "x-range" = "[2, 10]";
        /// Training images of each class; of scenes, those whose first shape is of the class.
        pub train_per_class: usize = 500, "x-range" = "[1, 100000]";
        /// Validation images of each class, counted in the same way.
        pub val_per_class: usize = 100, "x-range" = "[1, 100000]";
        /// Amount of clutter around the shape; at 1 up to 16 pieces, 8 in a scene.
        pub clutter: f64 = 0.5, "x-range" = "[0, 1]";
        /// How much of the shape is covered; at 1 up to 60 % of it.
        pub occlusion: f64 = 0.3, "x-range" = "[0, 1]";
        /// Fewest and most shapes of a scene; those for which there is no room are left out. Only with `layout = "dense"`.
        pub objects: [usize; 2] = [1, 2], "x-range" = "[1, 20]", "x-order" = "rising";
        /// Smallest and largest radius of a shape of a scene, in sides of the image. Only with `layout = "dense"`.
        pub radius: [f64; 2] = [0.18, 0.32], "x-range" = "[0.02, 0.5]", "x-order" = "rising";
        /// Seed of the images, independent of the run's seed.
        pub seed: u64 = 0;
    }
}

/// What the generated data set looks like on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// An image folder, `<split>/<class>/00000.png`: one shape in each image.
    Folder,
    /// `images/<split>/000000.png` and `masks/<split>/000000.png`, `annotations/<split>.json` as COCO's, and `classes.txt`.
    Dense,
}

/// The keys of scenes. Manifests of the other layout are older than these.
const DENSE_KEYS: [&str; 3] = ["layout", "objects", "radius"];
/// The class of pixels without a shape.
const BACKGROUND: &str = "background";

impl ShapesConfig {
    /// Checks the ranges, and the order of the ends of one.
    ///
    /// # Errors
    ///
    /// [`ShapesError::Config`] with the key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), DataError> {
        schema::check(self)
            .map_err(|(key, refusal)| DataError::Shapes(ShapesError::Config { key, refusal }))
    }

    /// The key of an image, which does not depend on the number of images, so that larger data sets begin with the images of smaller ones.
    pub fn key(&self, split: Split, figure: Figure, index: usize) -> Key {
        Key::new(self.seed)
            .named("shapes")
            .named(split.name())
            .named(figure.name())
            .child(index as u64)
    }

    /// The key of a scene.
    pub(super) fn scene_key(&self, split: Split, index: usize) -> Key {
        Key::new(self.seed)
            .named("scenes")
            .named(split.name())
            .child(index as u64)
    }

    /// The shapes, in the order of their classes.
    pub(super) fn figures(&self) -> impl Iterator<Item = Figure> {
        let mut all = Figure::ALL;
        if self.layout == Layout::Dense {
            // The first four are told apart with few pixels: the cross comes before the star.
            all.swap(3, 4);
        }
        all.into_iter().take(self.classes)
    }

    /// The names of the classes in the order of their numbers.
    pub(super) fn class_names(&self) -> Vec<String> {
        let names = self.figures().map(|figure| figure.name().to_owned());
        match self.layout {
            Layout::Folder => {
                let mut names: Vec<_> = names.collect();
                names.sort();
                names
            }
            Layout::Dense => std::iter::once(BACKGROUND.to_owned())
                .chain(names)
                .collect(),
        }
    }

    pub(super) fn per_class(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train_per_class,
            Split::Val => self.val_per_class,
        }
    }

    /// Images of a split.
    pub(super) fn images(&self, split: Split) -> usize {
        self.classes * self.per_class(split)
    }

    /// The keys in which two settings differ, with their values.
    pub(super) fn differences(&self, other: &Self) -> Result<String, String> {
        let table = |config: &Self| toml::Table::try_from(config).map_err(|e| e.to_string());
        let (found, wanted) = (table(self)?, table(other)?);
        let is_of_scenes = [self, other].map(|config| config.layout) == [Layout::Dense; 2];
        let differing = wanted.iter().filter(|(key, value)| {
            let has_effect = is_of_scenes || key.as_str() == "layout" || !is_dense_key(key);
            has_effect && found.get(*key) != Some(value)
        });
        let words = differing.map(|(key, value)| match found.get(key) {
            Some(old) => format!("`{key}` is {old} there, {value} here"),
            None => format!("`{key}` is {value} here"),
        });
        Ok(words.collect::<Vec<_>>().join(", "))
    }

    /// Lines of a manifest without those of keys that have no effect.
    pub(super) fn in_manifest(&self, text: &str) -> String {
        let is_written = |line: &&str| {
            let key = line.split(' ').next().unwrap_or_default();
            self.layout == Layout::Dense || !is_dense_key(key)
        };
        text.split_inclusive('\n').filter(is_written).collect()
    }
}

fn is_dense_key(key: &str) -> bool {
    DENSE_KEYS.contains(&key)
}
