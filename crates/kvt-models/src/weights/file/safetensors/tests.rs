#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::weights::file;

/// Swin checkpoints may hold masks: tensors that are not weights do not make the others unreadable.
#[test]
fn masks_of_bools_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mask.safetensors");
    let mask = TensorView::new(Dtype::BOOL, vec![3], &[1, 0, 1]).unwrap();
    let bytes = ::safetensors::serialize([("attn_mask", mask)], None).unwrap();
    fs_err::write(&path, bytes).unwrap();
    let read = file::read(&path).unwrap();
    let mask = read.get("attn_mask").unwrap();
    assert_eq!(mask.shape().to_vec(), [3]);
    assert_eq!(mask.as_bytes(), [1, 0, 1]);
}

/// The same content is the same file.
#[test]
fn metadata_is_in_order() {
    let entries = (0..9).map(|number| (format!("key {number}"), format!("\"{number}\" é\n")));
    let metadata: BTreeMap<String, String> = entries.collect();
    let weights: StateDict = [("w".to_owned(), TensorData::from([1.0f32]))]
        .into_iter()
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    write(&path, &weights, &metadata).unwrap();
    let bytes = fs_err::read(&path).unwrap();
    let header = format!(
        "{METADATA}{},\"w\":",
        serde_json::to_string(&metadata).unwrap()
    );
    assert!(bytes[8..].starts_with(header.as_bytes()));
    assert_eq!(file::metadata(&path).unwrap(), metadata);
    assert_eq!(file::read(&path).unwrap().get("w"), weights.get("w"));
}

/// The error of a file of these bytes.
fn error(bytes: &[u8]) -> WeightsError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    fs_err::write(&path, bytes).unwrap();
    let error = file::read(&path).unwrap_err();
    assert!(error.to_string().contains("w.safetensors"), "{error}");
    error
}

fn with_length(length: u64, rest: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes(), rest].concat()
}

#[test]
fn headers_that_do_not_describe_the_file() {
    let header = |text: &str, data: &[u8]| {
        let mut bytes = with_length(text.len() as u64, text.as_bytes());
        bytes.extend(data);
        bytes
    };
    let one = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    for bytes in [
        vec![],
        vec![0; 7],
        with_length(0, &[]),
        with_length(u64::MAX, &[0; 30]),
        with_length(100_000_001, &[0; 30]),
        // A header of this length is allowed, but the file is shorter.
        with_length(100_000_000, &[0; 30]),
        with_length(31, &[0; 30]),
        with_length(30, &[0; 30]),
        header("{}", &[0; 8]),
        // The tensor ends after the file, and before it.
        header(one, &[0; 7]),
        header(one, &[0; 9]),
        header(
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            &[0; 8],
        ),
        header(
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            &[0; 8],
        ),
        header(
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#,
            &[0; 8],
        ),
        header(
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}}"#,
            &[0; 8],
        ),
    ] {
        let error = error(&bytes);
        assert!(
            matches!(error, WeightsError::Safetensors { .. }),
            "{error:?}"
        );
    }
}

/// A file whose header claims 80 GiB is refused by its size, not by the memory of the machine.
#[test]
fn a_claim_larger_than_the_file() {
    let size = 80u64 << 30;
    let text = format!(
        r#"{{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{size}]}}}}"#,
        size / 4
    );
    let error = error(&with_length(text.len() as u64, text.as_bytes()));
    let WeightsError::Safetensors { source, .. } = error else {
        unreachable!("{error}");
    };
    assert!(matches!(*source, SafeTensorError::MetadataIncompleteBuffer));
}

/// Tensors that are nested under another key than the weights may have types that weights cannot have.
#[test]
fn only_what_is_asked_for_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let scales = TensorView::new(Dtype::F8_E4M3, vec![2], &[1, 2]).unwrap();
    let weight = TensorView::new(Dtype::U8, vec![3], &[7, 8, 9]).unwrap();
    let views = [("model.head.bias", weight), ("optimizer.scales", scales)];
    fs_err::write(&path, ::safetensors::serialize(views, None).unwrap()).unwrap();
    let read = file::read(&path).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read.get("head.bias").unwrap().as_bytes(), [7, 8, 9]);
}
