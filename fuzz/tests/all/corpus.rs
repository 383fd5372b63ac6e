//! The files that the targets start from.

use std::path::PathBuf;

/// All files of `corpus/<target>` with their names, in the order of these.
pub(crate) fn named_corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut files: Vec<(String, Vec<u8>)> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs_err::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of `{target}` is empty");
    files
}

/// The same without the names.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let files = named_corpus(target).into_iter();
    files.map(|(_, bytes)| bytes).collect()
}
