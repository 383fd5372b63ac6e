//! Weight files: from bytes to a state dict, and from that into a model.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use kvt_models::weights::{self, Layout, LoadOptions, StateDict, recognise};
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;
use proptest::prelude::any;

use crate::corpus::named_corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// A few numbers of each family: for images of 8 (16) pixels, and of twice the side to read weights from
/// that have to be resized.
fn models(scale: usize) -> Vec<Model> {
    let staged = |img_size: usize, patch_size: usize| ModelOverrides {
        img_size: Some((img_size * scale).into()),
        patch_size: Some(patch_size),
        embed_dim: Some(vec![4, 8].into()),
        depth: Some(vec![1, 1].into()),
        num_heads: Some(vec![1, 2].into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    let plain = ModelOverrides {
        embed_dim: Some(4.into()),
        depth: Some(1.into()),
        num_heads: Some(2.into()),
        ..staged(8, 4)
    };
    let swin = ModelOverrides {
        embed_dim: Some(4.into()),
        window_size: Some((2 * scale).into()),
        ..staged(8, 2)
    };
    let pit = ModelOverrides {
        patch_stride: Some(2),
        ..staged(8, 4)
    };
    let tnt = ModelOverrides {
        inner_dim: Some(4),
        inner_num_heads: Some(2),
        inner_stride: Some(2),
        ..plain.clone()
    };
    let visformer = ModelOverrides {
        patch_size: None,
        strides: Some(vec![2, 2, 1, 1]),
        embed_dim: Some(4.into()),
        depth: Some(1.into()),
        num_heads: Some(2.into()),
        ..staged(8, 4)
    };
    let models = [
        ("deit_tiny_patch16_224", plain.clone()),
        ("deit_tiny_distilled_patch16_224", plain),
        ("swin_tiny_patch4_window7_224", swin),
        ("pit_ti_224", pit),
        ("cvt_13", staged(16, 7)),
        ("tnt_s_patch16_224", tnt),
        ("visformer_tiny", visformer),
    ];
    let built = models.into_iter().map(|(name, overrides)| {
        let config = ModelConfig::by_name(name).unwrap();
        let config = config.with(&overrides).unwrap();
        config.init(&Device::flex(), Key::new(1)).unwrap()
    });
    built.collect()
}

/// Models as they are saved, under timm's names and under the authors'.
fn saved(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("saved.safetensors");
    let mut files = Vec::new();
    for model in models(1).iter().chain(&models(2)) {
        let timm = StateDict::from_model(model).unwrap();
        for layout in [Layout::Timm, Layout::Official] {
            let weights = model.rename(&timm, layout);
            weights::write(&path, &weights, &Default::default()).unwrap();
            files.push(fs_err::read(&path).unwrap());
        }
    }
    files
}

fn read(path: &Path, bytes: &[u8], models: &[Model]) {
    fs_err::write(path, bytes).unwrap();
    let weights = match weights::read(path) {
        Ok(weights) => weights,
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains("input."),
                "does not name the file: {message}"
            );
            return;
        }
    };
    assert!(!weights.is_empty());
    // 16 names for each byte, and twice the size where 16 bits become 32.
    let held: usize = weights.iter().map(|(_, data)| data.as_bytes().len()).sum();
    assert!(
        held <= 32 * bytes.len(),
        "{held} bytes from {}",
        bytes.len()
    );
    let _ = recognise(&weights);
    let _ = weights.not_finite().count();
    let options = LoadOptions {
        partial: true,
        reset_head: false,
        new_head: false,
        reset_mixer: false,
    };
    for model in models {
        if let Ok((model, report)) = model.clone().load(&weights, options) {
            assert!(!report.rows.is_empty());
            let _ = model.check_finite();
        }
    }
}

/// Files with edits, into the models. Those of the corpus can be read as they are, but for what was
/// once found.
struct Target {
    files: Vec<Vec<u8>>,
    models: Vec<Model>,
    /// If the process is ended, the last input lies there.
    path: PathBuf,
}

impl Target {
    fn new(name: &str, ending: &str, more: impl Fn(&Path) -> Vec<Vec<u8>>) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs_err::create_dir_all(&folder).unwrap();
        let mut target = Self {
            files: more(&folder),
            models: models(1),
            path: folder.join(format!("input.{ending}")),
        };
        for (file, bytes) in named_corpus(name) {
            target.read(&bytes);
            if !file.starts_with("found") {
                weights::read(&target.path).unwrap_or_else(|error| panic!("{file}: {error}"));
            }
            target.files.push(bytes);
        }
        target
    }

    fn read(&self, bytes: &[u8]) {
        read(&self.path, bytes, &self.models);
    }

    fn fuzz(&self) {
        fuzz(300, &(any::<u8>(), edits(1..6)), |(file, edits)| {
            self.read(&edited(&self.files, file, &edits));
        });
    }
}

#[test]
fn safetensors() {
    let target = Target::new("safetensors", "safetensors", saved);
    for file in &target.files {
        target.read(file);
    }
    target.fuzz();
}

#[test]
fn pytorch() {
    let target = Target::new("pytorch", "pth", |_| Vec::new());
    target.fuzz();
}
