#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use ::safetensors::SafeTensors;

use super::*;

fn weights() -> StateDict {
    [
        (
            "head.weight",
            TensorData::new(vec![1.0f32, -2.0, 3.5, 0.25, 5.0, 6.0], [2, 3]),
        ),
        ("norm.bias", TensorData::new(vec![0.1f32, 0.2], [2])),
    ]
    .map(|(name, data)| (name.to_owned(), data))
    .into_iter()
    .collect()
}

#[test]
fn a_written_file_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let metadata = BTreeMap::from([("model".to_owned(), "deit".to_owned())]);
    write(&path, &weights(), &metadata).unwrap();
    write(&path, &weights(), &metadata).unwrap();
    assert_eq!(read(&path).unwrap(), weights());

    let bytes = fs_err::read(&path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["model"], "deit");
    // Only the file is left.
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn half_precision_is_widened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.safetensors");
    let half: StateDict = weights()
        .into_iter()
        .map(|(name, data)| {
            let dtype = if name == "head.weight" {
                DType::F16
            } else {
                DType::BF16
            };
            (name, data.convert_dtype(dtype))
        })
        .collect();
    write(&path, &half, &BTreeMap::new()).unwrap();
    let read = read(&path).unwrap();
    // 1, -2, 3.5, ... are exact in 16 bits; 0.1 is 0x3dcd in bfloat16.
    assert_eq!(read.get("head.weight"), weights().get("head.weight"));
    let bias = read.get("norm.bias").unwrap().try_to_vec::<f32>().unwrap();
    assert_eq!(
        bias,
        [f32::from_bits(0x3dcd_0000), f32::from_bits(0x3e4d_0000)]
    );
}

#[test]
fn nested_names_are_unwrapped() {
    let unwrap = |names: &[&'static str]| -> Vec<String> {
        let named = names.iter().map(|name| (*name, ()));
        unwrap_names(named)
            .into_iter()
            .map(|(name, ())| name)
            .collect()
    };
    assert_eq!(
        unwrap(&["head.bias", "cls_token"]),
        ["head.bias", "cls_token"]
    );
    assert_eq!(
        unwrap(&["model.head.bias", "optimizer.0.exp_avg"]),
        ["head.bias"]
    );
    assert_eq!(unwrap(&["state_dict.module.head.bias"]), ["head.bias"]);
    assert_eq!(unwrap(&["model.a", "model_ema.b"]), ["b"]);
    assert_eq!(unwrap(&["_orig_mod.module.a"]), ["a"]);
    // DINO's `main_dino.py`, where the student is wrapped for several processes; DINOv2; Lightning.
    for names in [
        [
            "student.module.backbone.a",
            "teacher.backbone.a",
            "dino_loss.center",
        ],
        [
            "model.student.backbone.b",
            "model.teacher.backbone.a",
            "iteration",
        ],
        [
            "state_dict.student.backbone.b",
            "state_dict.teacher.model.backbone.a",
            "loops.a",
        ],
    ] {
        assert_eq!(unwrap(&names), ["backbone.a"], "{names:?}");
    }
    assert_eq!(unwrap(&["student.module.backbone.a"]), ["backbone.a"]);
    // Another distillation: neither of them is a wrapper.
    let two = ["student.a", "teacher.a"];
    assert_eq!(unwrap(&two), two);
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| read(path).unwrap_err().to_string();

    let missing = folder.path().join("no.safetensors");
    assert!(message(&missing).contains("no.safetensors"));
    assert!(message(&folder.path().join("no.pth")).contains("no.pth"));
    assert!(message(&folder.path().join("w.onnx")).contains("unknown ending"));

    for name in ["broken.safetensors", "broken.pth"] {
        let path = folder.path().join(name);
        fs_err::write(&path, b"not weights").unwrap();
        assert!(message(&path).contains(name));
    }
    let empty = folder.path().join("empty.safetensors");
    write(&empty, &StateDict::default(), &BTreeMap::new()).unwrap();
    assert!(message(&empty).contains("has no tensors"));
}

/// The checkpoints of T2T-ViT have such names.
#[test]
fn a_checkpoint_may_be_called_tar_or_ckpt() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/deit_nested.pth");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("81.5_T2T_ViT_14.pth.tar");
    fs_err::copy(&golden, &copy).unwrap();
    assert_eq!(read(&copy).unwrap(), read(&golden).unwrap());
    // Lightning's ending.
    let lightning = folder.path().join("epoch=3-step=40.ckpt");
    fs_err::copy(&golden, &lightning).unwrap();
    assert_eq!(read(&lightning).unwrap(), read(&golden).unwrap());
    // A real tar archive is not a checkpoint.
    let archive = folder.path().join("archive.tar");
    fs_err::write(&archive, [0; 1024]).unwrap();
    assert!(read(&archive).is_err());
}

#[test]
fn every_ending_that_messages_name_is_read() {
    let named: Vec<&str> = ENDINGS.split('`').skip(1).step_by(2).collect();
    let read = [".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar"];
    assert_eq!(named, read);
    for ending in read {
        assert!(is_of_weights(Path::new(&format!("w{ending}"))), "{ending}");
    }
}

/// They are refused before anything is read: a pipe may wait for ever, and a device has no end.
#[cfg(unix)]
#[test]
fn pipes_folders_and_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["safetensors", "pth"] {
        let pipe = folder.path().join(format!("pipe.{ending}"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let device = folder.path().join(format!("device.{ending}"));
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        let inner = folder.path().join(format!("folder.{ending}"));
        fs_err::create_dir(&inner).unwrap();
        for path in [pipe, device, inner] {
            let error = read(&path).unwrap_err();
            assert!(matches!(error, WeightsError::NotAFile(_)), "{error}");
            let name = path.display().to_string();
            assert!(error.to_string().contains(&name), "{error}");
        }
    }
}

#[test]
fn a_pointer_of_git_lfs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\n\
                   oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n\
                   size 22895624\n";
    for name in ["w.safetensors", "w.pth"] {
        let path = folder.path().join(name);
        fs_err::write(&path, pointer).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
        assert!(message.contains("run `git lfs pull`"), "{message}");
    }
}
