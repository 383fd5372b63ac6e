//! Numbers and shapes in the graph: constants, types, lengths that follow the batch.

use burn::backend::ir::{ScalarIr, TensorIr};
use burn::tensor::{BoolStore, DType, TensorData};

use super::base::float;
use super::{BATCH, Builder, INPUT};
use crate::dims::Dim;
use crate::error::ExportError;
use crate::proto::{Attribute, Constant, Dimension, TensorShape, TensorType, Type, ValueInfo};

/// ONNX's number of a type.
pub(super) fn element(dtype: DType) -> Option<i32> {
    Some(match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool(_) => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::BF16 => 16,
        _ => return None,
    })
}

/// A constant of the graph.
pub(super) fn constant(name: &str, data: &TensorData, data_type: i32) -> Constant {
    let raw_data = match data.dtype() {
        // One byte each.
        DType::Bool(BoolStore::U32) => data.iter::<bool>().map(u8::from).collect(),
        _ => data.as_bytes().to_vec(),
    };
    let dims = data.shape().as_slice().iter();
    Constant {
        dims: dims.map(|length| *length as i64).collect(),
        data_type,
        name: name.to_owned(),
        raw_data,
    }
}

/// An input or output in f32.
pub(super) fn value_info(name: &str, dims: &[Dim]) -> ValueInfo {
    let dim = dims.iter().map(|dim| Dimension {
        value: dim.fixed(),
        name: dim.fixed().is_none().then(|| BATCH.to_owned()),
    });
    let shape = Some(TensorShape { dim: dim.collect() });
    let tensor = Some(TensorType {
        elem_type: 1,
        shape,
    });
    ValueInfo {
        name: name.to_owned(),
        kind: Some(Type { tensor }),
    }
}

impl Builder<'_> {
    /// A list of integers.
    pub(super) fn ints(&mut self, ints: &[i64]) -> String {
        let bytes = ints.iter().flat_map(|i| i.to_le_bytes()).collect();
        self.constant(&[ints.len() as i64], 7, bytes)
    }

    /// An axis where an operator takes one of them.
    pub(super) fn axis(&mut self, axis: usize) -> String {
        self.constant(&[], 7, (axis as i64).to_le_bytes().to_vec())
    }

    /// A number in the type of a value.
    pub(super) fn number(
        &mut self,
        value: ScalarIr,
        like: &TensorIr,
    ) -> Result<String, ExportError> {
        let (element, bytes) = self.scalar(float(value), like)?;
        Ok(self.constant(&[], element, bytes))
    }

    /// ONNX's number of the type of a value, and the bytes of one number of it.
    fn scalar(&self, value: f64, like: &TensorIr) -> Result<(i32, Vec<u8>), ExportError> {
        let element = self.element_of(like)?;
        let bytes = match element {
            1 => (value as f32).to_le_bytes().to_vec(),
            6 => (value as i32).to_le_bytes().to_vec(),
            7 => (value as i64).to_le_bytes().to_vec(),
            9 => vec![u8::from(value != 0.0)],
            11 => value.to_le_bytes().to_vec(),
            _ => return Err(self.lacks(like.dtype)),
        };
        Ok((element, bytes))
    }

    /// A constant, the same for the same content.
    fn constant(&mut self, dims: &[i64], data_type: i32, raw_data: Vec<u8>) -> String {
        let hex: String = raw_data.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("constant_{data_type}_{dims:?}_{hex}").replace(['[', ']', ' '], "");
        let constant = Constant {
            dims: dims.to_vec(),
            data_type,
            name: name.clone(),
            raw_data,
        };
        self.constants.insert(name.clone(), constant);
        name
    }

    /// A shape, as an operator reads it.
    pub(super) fn shape(&mut self, dims: &[Dim]) -> String {
        let fixed: Option<Vec<i64>> = dims.iter().map(|dim| dim.fixed()).collect();
        if let Some(fixed) = fixed {
            return self.ints(&fixed);
        }
        let parts: Vec<String> = dims.iter().map(|dim| self.length(*dim)).collect();
        self.node("Concat", parts, [Attribute::int("axis", 0)])
    }

    /// The shape of a value that keeps its numbers: one length may be left open.
    pub(super) fn new_shape(&mut self, dims: &[Dim]) -> String {
        let open = dims.iter().filter(|dim| dim.fixed().is_none()).count();
        if open > 1 {
            return self.shape(dims);
        }
        let lengths = dims.iter().map(|dim| dim.fixed().unwrap_or(-1));
        self.ints(&lengths.collect::<Vec<_>>())
    }

    /// A length as a list of one.
    fn length(&mut self, dim: Dim) -> String {
        match dim {
            Dim::Fixed(length) => self.ints(&[length as i64]),
            Dim::PerImage(each) => {
                let shape = self.node("Shape", [INPUT.to_owned()], []);
                let first = self.ints(&[0]);
                let images = self.node("Gather", [shape, first], [Attribute::int("axis", 0)]);
                if each == 1 {
                    return images;
                }
                let each = self.ints(&[each as i64]);
                self.node("Mul", [images, each], [])
            }
        }
    }

    /// A value that is `number` everywhere.
    pub(super) fn fill(&mut self, number: f64, out: &TensorIr) -> Result<(), ExportError> {
        let (data_type, raw_data) = self.scalar(number, out)?;
        let value = Constant {
            dims: vec![1],
            data_type,
            raw_data,
            ..Constant::default()
        };
        let shape = self.shape(&self.dims_of(out));
        let value = Attribute::tensor("value", value);
        let name = self.node("ConstantOfShape", [shape], [value]);
        self.set(out, name);
        Ok(())
    }
}

impl Dim {
    fn fixed(self) -> Option<i64> {
        match self {
            Self::Fixed(length) => Some(length as i64),
            Self::PerImage(_) => None,
        }
    }
}
