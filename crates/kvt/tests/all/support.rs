//! Shared by the tests: a folder with a tiny data set and configuration, the binary run in it, the engine run in this process,
//! and golden files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use assert_cmd::Command;
use image::{Rgb, RgbImage};
use kvt_models::weights::{self, StateDict};
use kvt_train::config::load_plan;
use kvt_train::engine::{End, Session, Start, TrainError};
use kvt_train::run::{Event, Listener, RunError, StepRecord, read_log};
use kvt_train::task::Classify;
use kvt_train::world::alone;
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub(crate) const KVT: &str = env!("CARGO_BIN_EXE_kvt");

/// A very short run: 18 images of 3 classes, 16 pixels wide.
const TINY: &str = r#"seed = 3

[model]
name = "deit_tiny_patch16_224"
img_size = 16
patch_size = 4
embed_dim = 16
depth = 2
num_heads = 2
mlp_ratio = 2.0

[data]
path = "data"
workers = 0

[augment]
preset = "none"

[optim]
lr = 1e-3
lr_batch = 0

[schedule]
warmup_epochs = 1.0
per = "step"

[train]
epochs = 2
batch_size = 6
device = "cpu"

[log]
tensorboard = false

[report]
auto = false

[run]
dir = "run"
"#;

/// A temporary folder in which the binary runs, so that its messages hold relative paths.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    /// An empty folder with `tiny.toml`.
    pub(crate) fn empty() -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        workspace.write("tiny.toml", TINY);
        workspace
    }

    /// A folder with `tiny.toml` and its data: `train` training and `val` validation images of each
    /// of the classes `a`, `b` and `c`.
    pub(crate) fn with_data(train: usize, val: usize) -> Self {
        let workspace = Self::empty();
        for class in ["a", "b", "c"] {
            workspace.images(&format!("data/train/{class}"), train);
            workspace.images(&format!("data/val/{class}"), val);
        }
        workspace
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).unwrap()
    }

    /// Images whose colour depends on the folder's name, each with a different pattern.
    pub(crate) fn images(&self, folder: &str, count: usize) {
        let name: u32 = folder.bytes().map(u32::from).sum();
        for index in 0..u32::try_from(count).unwrap() {
            let picture = RgbImage::from_fn(16, 16, |x, y| {
                let noise = (x * 31 + y * 17 + index * 97 + name * 7) * 7919 % 101;
                Rgb([0, 1, 2].map(|c| (40 * ((name + c) % 3) + noise + 20) as u8))
            });
            save(&self.path(folder).join(format!("{index:03}.png")), &picture);
        }
    }

    /// The binary, run in this folder.
    pub(crate) fn kvt(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(KVT);
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    /// The same, with the arguments in one line.
    pub(crate) fn line(&self, line: &str) -> Command {
        self.kvt(&line.split(' ').collect::<Vec<_>>())
    }

    /// The end of stderr, from the last `error:` on (drivers print messages, too), of a command that must fail with exit code 1.
    pub(crate) fn error(&self, arguments: &[&str]) -> String {
        let output = self.kvt(arguments).assert().failure().code(1);
        let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(!stderr.contains("panicked at"), "{stderr}");
        match stderr.rfind("error: ") {
            Some(start) => stderr[start..].to_owned(),
            None => panic!("no `error:` in {stderr:?}"),
        }
    }

    /// Runs a command that fails since its results cannot be printed.
    #[cfg(target_os = "linux")]
    pub(crate) fn unprinted(&self, line: &str) {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full");
        let output = std::process::Command::new(KVT)
            .current_dir(self.0.path())
            .args(line.split(' '))
            .stdout(full.unwrap().into_file())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("error: No space left"), "{stderr}");
    }

    /// The JSON printed by a command.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.kvt(arguments).assert().success();
        serde_json::from_slice(&output.get_output().stdout).unwrap()
    }

    pub(crate) fn log(&self, run: &str) -> Vec<Event> {
        let log = read_log(&self.path(run).join("log.jsonl")).unwrap();
        assert_eq!(log.warning, None);
        log.events
    }

    /// The names in a folder.
    pub(crate) fn entries(&self, folder: &str) -> Vec<String> {
        fs_err::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// The folder of a run's last checkpoint.
    pub(crate) fn last_checkpoint(&self, run: &str) -> PathBuf {
        let folder = self.path(run).join("checkpoints");
        let name = fs_err::read_to_string(folder.join("last")).unwrap();
        folder.join(name.trim())
    }

    /// Trains `tiny.toml` in this process.
    pub(crate) fn train(&self, run: &str, overrides: &[&str]) -> Vec<Event> {
        let mut all = vec![
            set("data.path", &self.path("data")),
            set("run.dir", &self.path(run)),
        ];
        all.extend(overrides.iter().map(|&text| text.to_owned()));
        train(&self.path("tiny.toml"), &all).unwrap()
    }
}

/// An override that sets a path.
pub(crate) fn set(key: &str, path: &Path) -> String {
    format!("{key}={:?}", path.to_str().unwrap())
}

/// Trains a configuration to its end, in this process.
pub(crate) fn train(config: &Path, overrides: &[String]) -> Result<Vec<Event>, TrainError> {
    let plan = load_plan(config, overrides)?;
    let session = Session::<Classify>::prepare(alone(), plan, Start::New, &mut |_, _| {})?;
    let mut heard = Heard::default();
    let end = session.train(&mut heard, &AtomicBool::new(false))?;
    assert_eq!(end, End::Finished);
    Ok(heard.events)
}

/// Remembers every event, and asks for a stop after some update.
#[derive(Default)]
pub(crate) struct Heard<'a> {
    pub(crate) events: Vec<Event>,
    pub(crate) stop: Option<(u64, &'a AtomicBool)>,
}

impl Listener for Heard<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.events.push(event.clone());
        if let (Event::Step(step), Some((at, flag))) = (event, self.stop)
            && step.step == at
        {
            flag.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Remembers every event, and ends the run with an error after some update, as a kill would: nothing is saved then.
pub(crate) struct Killer {
    pub(crate) events: Vec<Event>,
    pub(crate) at: Option<u64>,
}

impl Listener for Killer {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.events.push(event.clone());
        match event {
            Event::Step(step) if Some(step.step) == self.at => {
                Err(RunError::Io(std::io::Error::other("killed")))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn steps(events: &[Event]) -> Vec<&StepRecord> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect()
}

pub(crate) fn save(path: &Path, picture: &RgbImage) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    picture.save(path).unwrap();
}

/// The folder of all crates.
pub(crate) fn crates_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A golden file of any crate: tensors and the `config` of its metadata.
pub(crate) struct Golden {
    bytes: Vec<u8>,
    pub(crate) config: Value,
}

impl Golden {
    /// `name` is relative to the folder of all crates.
    pub(crate) fn read(name: &str) -> Self {
        let bytes = fs_err::read(crates_dir().join(name)).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = &header.metadata().as_ref().unwrap()["config"];
        Self {
            config: serde_json::from_str(config).unwrap(),
            bytes,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        tensors.tensor(name).unwrap().data().to_vec()
    }

    pub(crate) fn f32s(&self, name: &str) -> Vec<f64> {
        let bytes = self.bytes(name);
        let (numbers, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
        numbers.iter().map(number).collect()
    }

    pub(crate) fn i64s(&self, name: &str) -> Vec<i64> {
        let bytes = self.bytes(name);
        let (numbers, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty());
        numbers.iter().map(|b| i64::from_le_bytes(*b)).collect()
    }

    /// Writes the tensors with the prefix `weights.` as an ordinary weight file.
    pub(crate) fn write_weights(&self, file: &Path) {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        let weights = tensors.tensors().into_iter().filter_map(|(name, view)| {
            let name = name.strip_prefix("weights.")?.to_owned();
            Some((name, view))
        });
        let bytes = safetensors::serialize(weights, None).unwrap();
        fs_err::write(file, bytes).unwrap();
    }
}

pub(crate) fn read_weights(file: &Path) -> StateDict {
    weights::read(file).unwrap()
}

/// Values of a weight.
pub(crate) fn floats(weights: &StateDict, name: &str) -> Vec<f32> {
    weights.get(name).unwrap().try_to_vec::<f32>().unwrap()
}

/// Compares value by value; `tolerance` is relative to the expected value.
#[track_caller]
pub(crate) fn assert_each_close(what: &str, actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        let error = (a - e).abs() / e.abs();
        assert!(
            error <= tolerance,
            "{what} {index}: {a} instead of {e}, relative error {error:.2e}"
        );
    }
}
