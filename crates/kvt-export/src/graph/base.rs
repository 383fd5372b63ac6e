//! Operations that move numbers.

use burn::backend::ir::{
    BaseOperationIr, BoolOperationIr, OperationIr, ScalarIr, ShapeOpIr, SliceOpIr, TensorIr,
};
use burn::tensor::IndexingUpdateOp;

use super::Builder;
use crate::dims::Dim;
use crate::error::ExportError;
use crate::proto::Attribute;

/// The end of a slice that goes backwards to the first number.
const BEFORE_FIRST: i64 = i64::MIN + 1;

impl Builder<'_> {
    pub(super) fn base(
        &mut self,
        of: &BaseOperationIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        use BaseOperationIr as Of;
        match of {
            Of::Reshape(of) => {
                let dims = self.dims_of(&of.out);
                let (x, shape) = (self.read(&of.input)?, self.new_shape(&dims));
                self.named("Reshape", [x, shape], &of.out)
            }
            Of::SwapDims(of) => {
                let mut axes: Vec<usize> = (0..of.input.shape.num_dims()).collect();
                axes.swap(of.dim1, of.dim2);
                let perm = Attribute::ints("perm", axes);
                self.operator("Transpose", [&of.input], [perm], &of.out)
            }
            Of::Permute(of) => {
                let perm = Attribute::ints("perm", of.axes.iter().copied());
                self.operator("Transpose", [&of.input], [perm], &of.out)
            }
            Of::Flip(of) => {
                let ranges = of
                    .axes
                    .iter()
                    .map(|axis| [*axis as i64, -1, BEFORE_FIRST, -1]);
                let ranges: Vec<[i64; 4]> = ranges.collect();
                self.sliced(&of.input, &ranges, &of.out)
            }
            Of::Expand(of) => self.expand(of),
            Of::Slice(of) => self.slice(of, operation),
            Of::Select(of) => self.along("Gather", of.dim, [&of.tensor, &of.indices], &of.out),
            Of::Gather(of) => {
                self.along("GatherElements", of.dim, [&of.tensor, &of.indices], &of.out)
            }
            Of::Scatter(of) if of.update == IndexingUpdateOp::Assign => {
                let inputs = [&of.tensor, &of.indices, &of.value];
                self.along("ScatterElements", of.dim, inputs, &of.out)
            }
            Of::MaskWhere(of) => {
                self.operator("Where", [&of.mask, &of.value, &of.tensor], [], &of.out)
            }
            Of::MaskFill(of) => {
                let (mask, value) = (self.read(&of.mask)?, self.number(of.value, &of.tensor)?);
                let x = self.read(&of.tensor)?;
                self.named("Where", [mask, value, x], &of.out)
            }
            Of::Equal(of) => self.operator("Equal", [&of.lhs, &of.rhs], [], &of.out),
            Of::EqualElem(of) => self.with_scalar("Equal", of),
            Of::NotEqual(of) => {
                self.operator("Equal", [&of.lhs, &of.rhs], [], &of.out)?;
                self.operator("Not", [&of.out], [], &of.out)
            }
            Of::NotEqualElem(of) => {
                self.with_scalar("Equal", of)?;
                self.operator("Not", [&of.out], [], &of.out)
            }
            Of::RepeatDim(of) => self.repeat(&of.tensor, of.dim, &of.out, operation),
            Of::Cat(of) => self.along("Concat", of.dim, &of.tensors, &of.out),
            Of::Cast(of) => self.cast(&of.input, &of.out),
            // What is in an empty tensor is never read.
            Of::Empty(of) | Of::Zeros(of) => self.fill(0.0, &of.out),
            Of::Ones(of) => self.fill(1.0, &of.out),
            _ => Err(self.unknown(operation)),
        }
    }

    pub(super) fn bool(&mut self, of: &BoolOperationIr) -> Result<(), ExportError> {
        use BoolOperationIr as Of;
        match of {
            Of::IntoFloat(of) | Of::IntoInt(of) => self.cast(&of.input, &of.out),
            Of::Not(of) => self.operator("Not", [&of.input], [], &of.out),
            Of::And(of) => self.operator("And", [&of.lhs, &of.rhs], [], &of.out),
            Of::Or(of) => self.operator("Or", [&of.lhs, &of.rhs], [], &of.out),
            Of::Xor(of) => self.operator("Xor", [&of.lhs, &of.rhs], [], &of.out),
        }
    }

    /// The same numbers in the type of `out`.
    pub(super) fn cast(&mut self, x: &TensorIr, out: &TensorIr) -> Result<(), ExportError> {
        let to = self.element_of(out)?;
        self.operator("Cast", [x], [Attribute::int("to", i64::from(to))], out)
    }

    /// Axes that keep their length get the length 1, which ONNX leaves as it is.
    fn expand(&mut self, of: &ShapeOpIr) -> Result<(), ExportError> {
        let (from, to) = (self.dims_of(&of.input), self.dims_of(&of.out));
        let new = to.len().saturating_sub(from.len());
        let lengths = to.iter().enumerate().map(|(axis, length)| {
            let before = axis.checked_sub(new).and_then(|axis| from.get(axis));
            if before == Some(length) {
                Dim::Fixed(1)
            } else {
                *length
            }
        });
        let lengths: Vec<Dim> = lengths.collect();
        let (x, shape) = (self.read(&of.input)?, self.shape(&lengths));
        self.named("Expand", [x, shape], &of.out)
    }

    /// Axes that are taken whole are left out, such as that of the batch.
    fn slice(&mut self, of: &SliceOpIr, operation: &OperationIr) -> Result<(), ExportError> {
        let dims = self.dims_of(&of.tensor);
        let mut ranges = Vec::new();
        for (axis, (range, dim)) in of.ranges.iter().zip(dims).enumerate() {
            let length = of
                .tensor
                .shape
                .as_slice()
                .get(axis)
                .map_or(0, |length| *length as isize);
            let from_end = |at: isize| if at < 0 { at + length } else { at };
            let (start, end) = (from_end(range.start), range.end.map_or(length, from_end));
            let out = self.dims_of(&of.out).get(axis).copied();
            let is_batch = matches!(dim, Dim::PerImage(_));
            if is_batch && out != Some(dim) {
                return Err(self.depends_on_batch("Slice".to_owned()));
            }
            if range.step == 1 && start == 0 && end >= length {
                continue;
            }
            if range.step < 1 {
                return Err(self.unknown(operation));
            }
            if is_batch {
                return Err(self.depends_on_batch("Slice".to_owned()));
            }
            ranges.push([axis as i64, start as i64, end as i64, range.step as i64]);
        }
        if ranges.is_empty() {
            let name = self.read(&of.tensor)?;
            self.set(&of.out, name);
            return Ok(());
        }
        self.sliced(&of.tensor, &ranges, &of.out)
    }

    /// Ranges of some axes: axis, start, end and step of each.
    fn sliced(
        &mut self,
        x: &TensorIr,
        ranges: &[[i64; 4]],
        out: &TensorIr,
    ) -> Result<(), ExportError> {
        let x = self.read(x)?;
        let [axes, starts, ends, steps] = [0, 1, 2, 3].map(|part| {
            let part: Vec<i64> = ranges.iter().map(|range| range[part]).collect();
            self.ints(&part)
        });
        self.named("Slice", [x, starts, ends, axes, steps], out)
    }

    fn repeat(
        &mut self,
        x: &TensorIr,
        dim: usize,
        out: &TensorIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        let (from, to) = (self.dims_of(x), self.dims_of(out));
        let times = match (from.get(dim), to.get(dim)) {
            (Some(Dim::Fixed(from)), Some(Dim::Fixed(to)))
            | (Some(Dim::PerImage(from)), Some(Dim::PerImage(to))) => {
                to.checked_div(*from).map(Dim::Fixed)
            }
            (Some(Dim::Fixed(from)), Some(Dim::PerImage(to))) if to.is_multiple_of(*from) => {
                to.checked_div(*from).map(Dim::PerImage)
            }
            _ => None,
        };
        let Some(times) = times else {
            return Err(self.unknown(operation));
        };
        let repeats = (0..from.len()).map(|axis| if axis == dim { times } else { Dim::Fixed(1) });
        let repeats: Vec<Dim> = repeats.collect();
        let (x, repeats) = (self.read(x)?, self.shape(&repeats));
        self.named("Tile", [x, repeats], out)
    }
}

/// A number of any type.
pub(super) fn float(value: ScalarIr) -> f64 {
    match value {
        ScalarIr::Float(x) => x,
        ScalarIr::Int(x) => x as f64,
        ScalarIr::UInt(x) => x as f64,
        ScalarIr::Bool(x) => f64::from(u8::from(x)),
    }
}
