//! The documentation agrees with the code.

use std::path::{Path, PathBuf};

use kvt_train::config::load_plan;
use kvt_train::config::reference;

use crate::support::{Workspace, crates_dir};

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    let page = fs_err::read_to_string(root().join("docs/reference/config.md")).unwrap();
    assert!(
        page == reference(),
        "`docs/reference/config.md` is out of date: `kvt config reference > docs/reference/config.md`"
    );
}

#[test]
fn every_configuration_is_accepted() {
    let workspace = Workspace::empty();
    let runs = runs(&root().join("configs"));
    assert!(!runs.is_empty());
    for config in runs {
        load_plan(&config, &[]).unwrap_or_else(|error| panic!("{error}"));
        let config = config.to_str().unwrap();
        workspace
            .kvt(&["config", "check", config])
            .assert()
            .success();
    }
}

/// What images without folders of classes need is quoted whole, with the table that may stand in for the folders.
#[test]
fn a_message_about_loose_images_is_quoted() {
    let workspace = Workspace::empty();
    workspace.images("photos", 2);
    let error = workspace.error(&["data", "check", "photos"]);
    let quoted = error.trim().strip_prefix("error: ").unwrap();
    let page = fs_err::read_to_string(root().join("docs/guide/troubleshooting.md")).unwrap();
    assert!(page.contains(&format!("| `` {quoted} `` | ")), "{quoted}");
}

pub(crate) fn root() -> PathBuf {
    crates_dir().join("..").canonicalize().unwrap()
}

/// The configurations that are complete runs, not bases of others.
fn runs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(runs(&path));
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            let text = fs_err::read_to_string(&path).unwrap();
            if text.lines().any(|line| line.trim() == "[run]") {
                found.push(path);
            }
        }
    }
    found
}
