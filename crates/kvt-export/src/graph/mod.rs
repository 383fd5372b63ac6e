//! A recorded forward pass as a graph of ONNX operators.
//!
//! With a free batch, the pass is recorded for two sizes of the batch: lengths that grow with it are those of the batch, and nothing else
//! may differ.

mod base;
mod module;
mod numeric;
mod settings;
mod values;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use burn::backend::ir::{IntOperationIr, OperationIr, TensorIr};
use burn::tensor::{DType, TensorData, TensorId};

use crate::dims::{Dim, dims};
use crate::error::ExportError;
use crate::proto::{Attribute, Constant, Graph, Node};
use crate::record::Recording;
use values::{constant, element, value_info};

/// The name of the images.
pub(crate) const INPUT: &str = "images";
/// The name of the logits.
pub(crate) const OUTPUT: &str = "logits";
/// The name of the length of the batch where it is free.
pub(crate) const BATCH: &str = "batch";

/// Recordings of the same model, and the number of images of each.
#[derive(Clone, Copy)]
pub(crate) struct Recorded<'a> {
    /// Twice the same if the batch is fixed.
    pub(crate) recordings: [&'a Recording; 2],
    pub(crate) batches: [usize; 2],
}

/// A graph in the making.
struct Builder<'a> {
    recorded: Recorded<'a>,
    nodes: Vec<Node>,
    constants: BTreeMap<String, Constant>,
    /// The values that have been computed or read, by the identity in the first recording.
    names: HashMap<TensorId, String>,
    /// The identities in the second recording.
    others: HashMap<TensorId, TensorId>,
    dims: HashMap<TensorId, Vec<Dim>>,
    /// The last weight, which says where in the model an operation is.
    last_weight: Option<String>,
}

/// The graph of a recorded model.
pub(crate) fn graph(recorded: Recorded<'_>) -> Result<Graph, ExportError> {
    let [first, second] = recorded.recordings;
    let mut builder = Builder::new(recorded);
    let pairs = first.operations.iter().zip(&second.operations);
    if first.operations.len() != second.operations.len() {
        let kind = std::mem::discriminant::<OperationIr>;
        let differs = pairs
            .clone()
            .position(|(one, other)| kind(one) != kind(other));
        let at = differs.unwrap_or(first.operations.len().min(second.operations.len()));
        let [one, other] = [first, second].map(|recorded| {
            let operation = recorded.operations.get(at);
            operation.map_or_else(|| "nothing".to_owned(), name_of)
        });
        let operation = format!("{one} or {other}, operation {at}");
        return Err(builder.depends_on_batch(operation));
    }
    for (operation, other) in pairs {
        builder.add(operation, other)?;
    }
    builder.finish()
}

impl<'a> Builder<'a> {
    fn new(recorded: Recorded<'a>) -> Self {
        let input = recorded.recordings[0].input;
        Self {
            recorded,
            nodes: Vec::new(),
            constants: BTreeMap::new(),
            names: input.map(|id| (id, INPUT.to_owned())).into_iter().collect(),
            others: HashMap::new(),
            dims: HashMap::new(),
            last_weight: None,
        }
    }

    /// Adds the operators of one operation; `other` is the same operation in the second recording.
    fn add(&mut self, operation: &OperationIr, other: &OperationIr) -> Result<(), ExportError> {
        if name_of(operation) != name_of(other) {
            return Err(self.depends_on_batch(name_of(operation)));
        }
        let pairs: Vec<_> = operation.nodes().into_iter().zip(other.nodes()).collect();
        for (tensor, other) in pairs {
            let shapes = [&tensor.shape, &other.shape];
            let Some(dims) = dims(shapes, self.recorded.batches) else {
                return Err(self.depends_on_batch(name_of(operation)));
            };
            self.others.insert(tensor.id, other.id);
            self.dims.insert(tensor.id, dims);
        }
        self.same_settings(operation, other)?;
        match operation {
            OperationIr::BaseFloat(of) | OperationIr::BaseInt(of) | OperationIr::BaseBool(of) => {
                self.base(of, operation)
            }
            OperationIr::NumericFloat(_, of) | OperationIr::NumericInt(_, of) => {
                self.numeric(of, operation)
            }
            OperationIr::Float(_, of) => self.float(of, operation),
            OperationIr::Int(IntOperationIr::IntoFloat(of)) => self.cast(&of.input, &of.out),
            OperationIr::Bool(of) => self.bool(of),
            OperationIr::Module(of) => self.module(of, operation),
            OperationIr::Activation(of) => self.activation(of, operation),
            OperationIr::Init(_) | OperationIr::Drop(_) => Ok(()),
            OperationIr::Int(_) | OperationIr::Custom(_) | OperationIr::Distributed(_) => {
                Err(self.unknown(operation))
            }
        }
    }

    /// The name of a value that an operation reads.
    fn read(&mut self, tensor: &TensorIr) -> Result<String, ExportError> {
        if let Some(name) = self.names.get(&tensor.id) {
            return Ok(name.clone());
        }
        let [first, second] = self.recorded.recordings;
        let other = self.others.get(&tensor.id);
        let data = first.values.get(&tensor.id);
        let (Some(data), Some(same)) = (data, other.and_then(|id| second.values.get(id))) else {
            return Err(self.depends_on_batch("a tensor".to_owned()));
        };
        if !is_same(data, same) {
            return Err(self.depends_on_batch("a constant".to_owned()));
        }
        let name = match first.names.get(&tensor.id) {
            Some(name) => name.clone(),
            None => format!("constant_{}", self.constants.len()),
        };
        if first.names.contains_key(&tensor.id) {
            self.last_weight = Some(name.clone());
        }
        let element = element(data.dtype()).ok_or_else(|| self.lacks(data.dtype()))?;
        let constant = constant(&name, data, element);
        self.constants.insert(name.clone(), constant);
        self.names.insert(tensor.id, name.clone());
        Ok(name)
    }

    /// The lengths of the axes of a value; those of every operation are known when it is translated.
    fn dims_of(&self, tensor: &TensorIr) -> Vec<Dim> {
        self.dims.get(&tensor.id).cloned().unwrap_or_default()
    }

    /// An operator with one output, whose name is returned.
    fn node(
        &mut self,
        operator: &str,
        input: impl IntoIterator<Item = String>,
        attribute: impl IntoIterator<Item = Attribute>,
    ) -> String {
        let name = format!("{}_{}", operator.to_lowercase(), self.nodes.len());
        self.nodes.push(Node {
            input: input.into_iter().collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: operator.to_owned(),
            attribute: attribute.into_iter().collect(),
        });
        name
    }

    /// Makes a name that of a value that an operation computes.
    fn set(&mut self, tensor: &TensorIr, name: String) {
        self.names.insert(tensor.id, name);
    }

    /// An operator of some values for a value.
    fn operator<'t>(
        &mut self,
        operator: &str,
        inputs: impl IntoIterator<Item = &'t TensorIr>,
        attribute: impl IntoIterator<Item = Attribute>,
        out: &TensorIr,
    ) -> Result<(), ExportError> {
        let inputs = inputs.into_iter().map(|tensor| self.read(tensor));
        let inputs: Vec<String> = inputs.collect::<Result<_, _>>()?;
        let name = self.node(operator, inputs, attribute);
        self.set(out, name);
        Ok(())
    }

    /// An operator of some values along an axis.
    fn along<'t>(
        &mut self,
        operator: &str,
        axis: usize,
        inputs: impl IntoIterator<Item = &'t TensorIr>,
        out: &TensorIr,
    ) -> Result<(), ExportError> {
        let axis = Attribute::int("axis", axis as i64);
        self.operator(operator, inputs, [axis], out)
    }

    /// An operator of inputs by their names, without attributes, for a value.
    fn named(
        &mut self,
        operator: &str,
        inputs: impl IntoIterator<Item = String>,
        out: &TensorIr,
    ) -> Result<(), ExportError> {
        let name = self.node(operator, inputs, []);
        self.set(out, name);
        Ok(())
    }

    /// The graph, without what the logits do not need.
    fn finish(mut self) -> Result<Graph, ExportError> {
        let [first, _] = self.recorded.recordings;
        let nothing = || ExportError::Nothing;
        let input = first.input.ok_or_else(nothing)?;
        let output = first.output.ok_or_else(nothing)?;
        let dims_of = |id| self.dims.get(&id).cloned().unwrap_or_default();
        let infos = [(INPUT, dims_of(input)), (OUTPUT, dims_of(output))];
        let [input, out] = infos.map(|(name, dims)| value_info(name, &dims));
        let logits = self.names.get(&output).cloned().ok_or_else(nothing)?;
        self.nodes.push(Node {
            input: vec![logits],
            output: vec![OUTPUT.to_owned()],
            name: OUTPUT.to_owned(),
            op_type: "Identity".to_owned(),
            attribute: Vec::new(),
        });
        let mut needed = BTreeSet::from([OUTPUT.to_owned()]);
        let mut node = Vec::new();
        for one in self.nodes.into_iter().rev() {
            if one.output.iter().any(|name| needed.contains(name)) {
                needed.extend(one.input.iter().cloned());
                node.push(one);
            }
        }
        node.reverse();
        let constants = self.constants.into_values();
        Ok(Graph {
            node,
            name: "kvt".to_owned(),
            initializer: constants
                .filter(|constant| needed.contains(&constant.name))
                .collect(),
            input: vec![input],
            output: vec![out],
        })
    }

    /// Where in the model the operation is that is being translated.
    fn place(&self) -> String {
        match &self.last_weight {
            Some(name) => format!("after `{name}`"),
            None => "at the beginning of the model".to_owned(),
        }
    }

    fn unknown(&self, operation: &OperationIr) -> ExportError {
        ExportError::Operation {
            operation: name_of(operation),
            place: self.place(),
        }
    }

    fn depends_on_batch(&self, operation: String) -> ExportError {
        ExportError::Batch {
            operation,
            place: self.place(),
        }
    }

    /// The type of a value in ONNX.
    fn element_of(&self, tensor: &TensorIr) -> Result<i32, ExportError> {
        element(tensor.dtype).ok_or_else(|| self.lacks(tensor.dtype))
    }

    /// The refusal of a type that ONNX lacks.
    fn lacks(&self, dtype: DType) -> ExportError {
        ExportError::Type {
            kind: format!("{dtype:?}"),
            place: self.place(),
        }
    }
}

fn is_same(first: &TensorData, second: &TensorData) -> bool {
    first.shape() == second.shape() && first.as_bytes() == second.as_bytes()
}

/// Burn's name of an operation, such as `Matmul` or `NumericFloat(Add)`; what is in it is left out.
fn name_of(operation: &OperationIr) -> String {
    let text = format!("{operation:?}");
    let head = text.split(" {").next().unwrap_or(&text);
    let parts: Vec<&str> = head.split('(').collect();
    // `NumericFloat(F32, Add(BinaryOpIr`: the last part is the type of the content.
    let name = parts.len().checked_sub(2).and_then(|at| parts.get(at));
    let name = name.copied().unwrap_or(head);
    name.rsplit(", ").next().unwrap_or(name).to_owned()
}
