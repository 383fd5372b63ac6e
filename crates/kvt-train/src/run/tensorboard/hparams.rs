//! The hyper-parameters of a run in the format of TensorBoard's HParams plugin.
//!
//! They are the metadata of a summary with an empty value. These fields of the messages are used:
//! `Summary.Value`: `tag` 1, `tensor` 8, `metadata` 9; `SummaryMetadata`: `plugin_data` 1, with `plugin_name` 1 and `content` 2;
//! `HParamsPluginData`: `session_start_info` 3, with the map `hparams` 1 and `start_time_secs` 5; `google.protobuf.Value`:
//! `number_value` 2, `string_value` 3, `bool_value` 4.

use std::collections::BTreeMap;

use toml::Value;

use super::{Message, event};

/// The event of the start of a run with the values of its configuration by their dotted keys, such as `optim.lr`.
pub(super) fn hparams_event(parameters: &BTreeMap<String, Value>, wall_time: f64) -> Message {
    let mut info = Message::default();
    for (name, value) in parameters {
        let entry = Message::default().bytes(1, name.as_bytes());
        let entry = entry.bytes(2, &message(value).0);
        info = info.bytes(1, &entry.0);
    }
    let data = Message::default().bytes(3, &info.double(5, wall_time).0);
    let plugin = Message::default().bytes(1, b"hparams").bytes(2, &data.0);
    let metadata = Message::default().bytes(1, &plugin.0);
    let value = Message::default()
        .bytes(1, b"_hparams_/session_start_info")
        .bytes(8, EMPTY_TENSOR)
        .bytes(9, &metadata.0);
    let summary = Message::default().bytes(1, &value.0);
    event(wall_time, None, 5, &summary.0)
}

/// A `TensorProto` of `dtype` 1, float, whose `tensor_shape` 2 has one `dim` 2 without entries.
const EMPTY_TENSOR: &[u8] = &[0x08, 0x01, 0x12, 0x02, 0x12, 0x00];

/// A value that TensorBoard can sort and filter by; lists and times become texts.
fn message(value: &Value) -> Message {
    let message = Message::default();
    match value {
        // Integers in a configuration are far below 2^53, except seeds, which may be rounded here.
        Value::Integer(number) => message.double(2, *number as f64),
        Value::Float(number) => message.double(2, *number),
        Value::Boolean(is_on) => message.integer(4, u64::from(*is_on)),
        Value::String(text) => message.bytes(3, text.as_bytes()),
        other => message.bytes(3, other.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::config::leaves;

    /// Made by TensorBoard 2.21.0 (`plugin_data_pb2`, `metadata.create_summary_metadata`, `NULL_TENSOR`), with the map in the
    /// order of its keys.
    const GOLDEN: &str = "\
        09000000000000f83f2a7e0a7c0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f420608011202\
        12004a540a520a0768706172616d7312471a450a0c0a06656d612e6f6e120220010a150a086f7074696d2e6c7212091100\
        0000000000d03f0a150a0a6f7074696d2e6e616d6512071a056164616d7729000000000000f83f";

    #[test]
    fn bytes_equal_tensorboards_own() {
        let table = "[optim]\nname = \"adamw\"\nlr = 0.25\n[ema]\non = true\n";
        let parameters = leaves(toml::from_str(table).unwrap());
        let bytes = hparams_event(&parameters, 1.5).0;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
    }

    #[test]
    fn lists_are_texts_and_whole_numbers_numbers() {
        let table = toml::from_str("seed = 7\n[model]\ndepth = [2, 2]\n").unwrap();
        let found = leaves(table);
        let found: Vec<_> = found
            .iter()
            .map(|(name, value)| (name.as_str(), message(value).0))
            .collect();
        let expected = [
            ("model.depth", message(&Value::from("[2, 2]")).0),
            ("seed", message(&Value::from(7.0)).0),
        ];
        assert_eq!(found, expected);
    }
}
