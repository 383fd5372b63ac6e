#![doc = include_str!("../README.md")]

#[cfg(feature = "check")]
mod check;
mod dims;
mod error;
mod graph;
mod proto;
mod record;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use burn::tensor::Device;
use kvt_models::weights::{LoadOptions, StateDict};
use kvt_models::{Model, Precision};
use kvt_ops::Key;
use prost::Message;

pub use error::ExportError;

use graph::{Recorded, graph};
use record::record;

/// The version of ONNX's operators; 17 is the first with a layer norm.
pub const OPSET: i64 = 17;
/// The version of the file's layout that belongs to it.
const IR_VERSION: i64 = 8;
/// The format's limit, which is that of a message of Protocol Buffers.
const MOST_BYTES: usize = i32::MAX as usize;

/// The kinds of attention that are exported.
const KINDS: [&str; 2] = ["dense", "knn"];

/// A model as an ONNX file.
#[derive(Clone, Debug)]
pub struct Onnx {
    /// The contents of the file.
    pub bytes: Vec<u8>,
    /// How many operators the graph has.
    pub operators: usize,
    /// The largest difference of a logit from the model's own; `None` if nothing ran the file, since the feature `check` is not
    /// compiled in.
    pub difference: Option<f32>,
}

/// A model as an ONNX file in f32, from `images` `[batch, channels, height, width]` to `logits` `[batch, classes]`. Without a
/// `batch` its length is free. `metadata` is stored beside the graph.
///
/// The model is consumed: it ends on a device that computes nothing.
///
/// # Errors
/// If an attention is neither dense nor k-NN, the model computes something that has no translation, or that depends on the batch
/// otherwise than in its length, the file would be too large, or, with the feature `check`, its logits are not the model's.
pub fn onnx(
    model: Model,
    batch: Option<NonZeroUsize>,
    metadata: &BTreeMap<String, String>,
) -> Result<Onnx, ExportError> {
    let batch = batch.map(usize::from);
    for stage in model.config().summary().stages {
        let kind = stage.attention.map_or("dense", |attention| attention.kind);
        if !KINDS.contains(&kind) {
            return Err(ExportError::Kind {
                stage: stage.name,
                kind,
            });
        }
    }
    let model = model.with_precision(Precision::F32);
    // Recording moves the statistics of batch norms, so the model computes first.
    #[cfg(feature = "check")]
    let sample = check::Sample::of(&model, batch)?;
    // Two lengths that nothing else of a model has, so that no operation is left out for one of them alone.
    let batches = batch.map_or([11, 13], |batch| [batch; 2]);
    // What a model keeps from one pass to the next, as clones of it share it, belongs to the recording: each has a model of its own.
    let twin = match batch {
        Some(_) => None,
        None => Some(copy(&model)?),
    };
    let first = record(&model, batches[0])?;
    let second = twin.map(|twin| record(&twin, batches[1])).transpose()?;
    let recordings = [&first, second.as_ref().unwrap_or(&first)];
    let graph = graph(Recorded {
        recordings,
        batches,
    })?;
    let operators = graph.node.len();
    let bytes = file(graph, metadata)?;
    #[cfg(feature = "check")]
    let difference = Some(sample.compare(&bytes)?);
    #[cfg(not(feature = "check"))]
    let difference = None;
    Ok(Onnx {
        bytes,
        operators,
        difference,
    })
}

/// A model with the same numbers that shares nothing with this one.
fn copy(model: &Model) -> Result<Model, ExportError> {
    let state = StateDict::from_model(model)?;
    let fresh = model.config().init(&Device::flex(), Key::new(0))?;
    let (copy, _) = fresh.load(&state, LoadOptions::default())?;
    Ok(copy.with_precision(Precision::F32))
}

fn file(graph: proto::Graph, metadata: &BTreeMap<String, String>) -> Result<Vec<u8>, ExportError> {
    let entries = metadata.iter().map(|(key, value)| proto::Entry {
        key: key.clone(),
        value: value.clone(),
    });
    let model = proto::Model {
        ir_version: IR_VERSION,
        producer_name: "kvt".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        graph: Some(graph),
        opset_import: vec![proto::OperatorSet {
            domain: String::new(),
            version: OPSET,
        }],
        metadata_props: entries.collect(),
    };
    let length = model.encoded_len();
    if length > MOST_BYTES {
        return Err(ExportError::Size(length));
    }
    Ok(model.encode_to_vec())
}

#[cfg(test)]
mod tests;
