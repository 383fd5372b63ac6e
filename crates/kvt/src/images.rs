//! The images that a command line names: files, folders, and patterns that the shell did not expand.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::output;
use kvt_data::escape::one_line;
use kvt_train::data::{Files, image_files};

/// The files that the arguments name, in their order, and whether every argument names at least one. An argument that names none
/// is an error, which is printed; like `cat`, the program continues with the others.
pub(super) fn expand(arguments: &[PathBuf]) -> (Vec<PathBuf>, bool) {
    let mut files = Vec::new();
    let mut are_all = true;
    for argument in arguments {
        match named(argument) {
            Ok(found) => files.extend(found),
            Err(error) => {
                output::error(&one_line(&format!("{error:#}")));
                are_all = false;
            }
        }
    }
    (files, are_all)
}

/// The files of one argument: a folder means all images below it, by name (of those in other formats it warns), and a pattern such as `photos/*.jpg` or
/// `photos/**/*.png` for the files that match. A file is taken whatever its name is.
fn named(argument: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if argument.is_dir() {
        below(argument)
    } else if argument.symlink_metadata().is_ok() {
        Ok(vec![argument.to_owned()])
    } else {
        matching(argument)
    }
}

fn below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Files { images, others, .. } = image_files(folder)?;
    output::warnings(others.warning(folder));
    if images.is_empty() {
        bail!(
            "`{}` has no image: expected .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif files in it or in its folders",
            folder.display()
        );
    }
    Ok(images)
}

fn matching(argument: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let pattern = argument
        .to_str()
        .filter(|text| text.contains(['*', '?', '[']));
    let Some(pattern) = pattern else {
        bail!("no file `{}`", argument.display());
    };
    let options = glob::MatchOptions {
        // As a shell has it: hidden files have to be named.
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(pattern, options)
        .with_context(|| format!("`{pattern}` is not a valid file pattern"))?;
    let mut files = found.collect::<Result<Vec<PathBuf>, _>>()?;
    files.retain(|path| !path.is_dir());
    if files.is_empty() {
        bail!("no file matches `{pattern}`")
    } else {
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn files_folders_and_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [
            "b.png",
            "a.JPG",
            "notes.txt",
            "sub/c.png",
            "sub/.hidden.png",
            "[1].png",
        ] {
            let path = root.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        let of = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
            let (files, are_all) = expand(&paths);
            assert!(are_all);
            let names = files.iter().map(|file| file.strip_prefix(root).unwrap());
            let names: Vec<_> = names.map(|name| name.display().to_string()).collect();
            names.join(" ")
        };
        assert_eq!(of(&[""]), "[1].png a.JPG b.png sub/c.png");
        assert_eq!(of(&["sub", "b.png"]), "sub/c.png b.png");
        assert_eq!(of(&["*.png"]), "[1].png b.png");
        assert_eq!(of(&["**/*.png"]), "[1].png b.png sub/c.png");
        // A file that is there is no pattern, and may have any name.
        assert_eq!(of(&["[1].png", "notes.txt"]), "[1].png notes.txt");
        for (name, expected) in [
            ("*.gif", "no file matches `"),
            ("none.png", "no file `"),
            ("a[", "is not a valid file pattern"),
        ] {
            let error = named(&root.join(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        // The others are there all the same.
        let (files, are_all) = expand(&[root.join("b.png"), root.join("none.png")]);
        assert_eq!((files.len(), are_all), (1, false));
        fs_err::create_dir(root.join("empty")).unwrap();
        let error = named(&root.join("empty")).unwrap_err().to_string();
        assert!(error.contains("has no image"), "{error}");
    }
}
