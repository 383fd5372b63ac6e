//! Scenes of several shapes for dense prediction, in the formats of ADE20K and COCO.

mod annotations;
mod scene;

use std::path::Path;

use self::annotations::Annotations;
use self::scene::render;
use super::config::ShapesConfig;
use super::folder::{on_all_cores, write_png};
use crate::{DataError, Split};

/// The file with the names of the classes, in the order of their numbers.
pub(crate) const CLASSES: &str = "classes.txt";

/// The files of the data set but the manifest.
pub(super) fn write(
    config: &ShapesConfig,
    root: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), DataError> {
    const SPLITS: [Split; 2] = [Split::Train, Split::Val];
    let folder = |kind: &str, split: Split| root.join(kind).join(split.name());
    let mut jobs = Vec::new();
    for split in SPLITS {
        for kind in ["images", "masks"] {
            fs_err::create_dir_all(folder(kind, split))?;
        }
        jobs.extend((0..config.images(split)).map(|index| (split, index)));
    }
    let draw = |&(split, index): &(Split, usize)| {
        let path = folder("images", split).join(file_name(index));
        let scene = render(config, split, index);
        write_png(&path, &scene.image)?;
        write_png(
            &folder("masks", split).join(file_name(index)),
            &scene.labels,
        )?;
        Ok(scene.objects)
    };
    let mut objects = on_all_cores(&jobs, draw, progress)?.into_iter();
    let json = root.join("annotations");
    fs_err::create_dir_all(&json)?;
    for split in SPLITS {
        let images = objects.by_ref().take(config.images(split));
        let annotations = Annotations::new(config, images);
        let path = json.join(format!("{}.json", split.name()));
        let text = serde_json::to_vec(&annotations);
        let text = text.map_err(|error| DataError::write(&path, &error))?;
        fs_err::write(path, text)?;
    }
    let names = config.class_names().join("\n") + "\n";
    fs_err::write(root.join(CLASSES), names)?;
    Ok(())
}

fn file_name(index: usize) -> String {
    format!("{index:06}.png")
}

#[cfg(test)]
mod tests;
