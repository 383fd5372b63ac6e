//! A run's checkpoints, with files that were changed, cut, emptied, removed, or became folders.

use std::path::{Path, PathBuf};

use fs_err as fs;
use kvt_train::run::{Checkpoints, RunDir, RunError, Stage, Which};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::edit::{Edit, edited, edits};
use crate::runner::fuzz;

/// What became of a file.
#[derive(Clone, Debug)]
enum Damage {
    Edited(Vec<Edit>),
    Emptied,
    Removed,
    Folder,
}

/// The checkpoints of a run.
fn of_run(folder: &Path) -> Checkpoints {
    fs::write(folder.join("config.toml"), "").unwrap();
    Checkpoints::new(&RunDir::open(folder).unwrap())
}

/// Two checkpoints, of which the first is the best.
fn sound(folder: &Path) -> Vec<PathBuf> {
    let checkpoints = of_run(folder);
    for (step, best) in [(10, true), (20, false)] {
        let files = |folder: &Path| -> Result<_, RunError> {
            let name = "model.safetensors".to_owned();
            fs::write(folder.join(&name), format!("weights after {step}"))?;
            Ok(vec![name])
        };
        let state = serde_json::json!({"step": step, "loss": 0.5});
        checkpoints
            .save(step, (Stage::Done, best), &state, files)
            .unwrap();
    }
    let mut paths = Vec::new();
    list(&folder.join("checkpoints"), &mut paths);
    paths.sort();
    paths
}

fn list(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

#[test]
fn checkpoints() {
    let template = tempfile::tempdir().unwrap();
    let paths = sound(template.path());
    let contents: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let damage = prop_oneof![
        6 => edits(1..4).prop_map(Damage::Edited),
        1 => Just(Damage::Emptied),
        1 => Just(Damage::Removed),
        1 => Just(Damage::Folder),
    ];
    fuzz(500, &vec((any::<u8>(), damage), 0..4), |changes| {
        let folder = tempfile::tempdir().unwrap();
        let place = |path: &Path| {
            let inner = path.strip_prefix(template.path()).unwrap();
            folder.path().join(inner)
        };
        for (path, content) in paths.iter().zip(&contents) {
            let path = place(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        for (file, damage) in &changes {
            let path = place(&paths[usize::from(*file) % paths.len()]);
            damage.apply(&path, *file, &contents);
        }
        read(folder.path());
    });
}

impl Damage {
    fn apply(&self, path: &Path, file: u8, contents: &[Vec<u8>]) {
        // A second change of the same file may find it gone.
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        let bytes = match self {
            Self::Edited(edits) => edited(contents, file, edits),
            Self::Emptied => Vec::new(),
            Self::Removed => return,
            Self::Folder => return fs::create_dir(path).unwrap(),
        };
        fs::write(path, bytes).unwrap();
    }
}

/// Whatever is loaded is one of the two that were saved.
fn read(folder: &Path) {
    let checkpoints = of_run(folder);
    for which in [Which::Last, Which::Best] {
        match checkpoints.load(which) {
            Ok((checkpoint, _)) => {
                let state: serde_json::Value = checkpoint.state().unwrap();
                let step = state["step"].as_u64().unwrap();
                // A list of files that was changed may lack it, and then nobody reads it.
                if checkpoint.has("model.safetensors") {
                    let weights = fs::read(checkpoint.file("model.safetensors")).unwrap();
                    assert_eq!(weights, format!("weights after {step}").into_bytes());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    settle(&checkpoints);
}

/// A run that goes on leaves an orderly folder, whatever it found.
fn settle(checkpoints: &Checkpoints) {
    let Ok((mut recovered, _)) = checkpoints.recover(Which::Last) else {
        return;
    };
    let path = recovered.path().to_owned();
    // A folder in the place of a pointer is not deleted, but named.
    let best_is_lost = match checkpoints.settle(&mut recovered, Some(Some(10)), &mut Vec::new()) {
        Ok(best_is_lost) => best_is_lost,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let (last, warning) = checkpoints.load(Which::Last).unwrap();
    assert_eq!((last.path(), warning), (path.as_path(), None));
    assert_eq!(best_is_lost, checkpoints.load(Which::Best).is_err());
}
