#![expect(clippy::unwrap_used, reason = "tests")]

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
    // Nothing but the file is left behind.
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
}

/// Swin checkpoints may hold masks: what is no weight does not make the others unreadable.
#[test]
fn masks_of_bools_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mask.safetensors");
    let mask = TensorView::new(Dtype::BOOL, vec![3], &[1, 0, 1]).unwrap();
    let bytes = safetensors::serialize([("attn_mask", mask)], None).unwrap();
    fs_err::write(&path, bytes).unwrap();
    let read = read(&path).unwrap();
    let mask = read.get("attn_mask").unwrap();
    assert_eq!(mask.shape().to_vec(), [3]);
    assert_eq!(mask.as_bytes(), [1, 0, 1]);
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
