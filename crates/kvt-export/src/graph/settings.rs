//! What an operation has beside tensors, such as numbers and axes: one graph has it once, for every number of images.

use burn::backend::ir::{
    BaseOperationIr, IrVisitorMut, OperationIr, ScalarIr, TensorIr, TensorStatus,
};
use burn::tensor::{Shape, Slice, TensorId};

use super::base::float;
use super::{Builder, name_of};
use crate::dims::Dim;
use crate::error::ExportError;

impl Builder<'_> {
    /// Refuses an operation that computes with something else in the second recording; its tensors are compared elsewhere.
    pub(super) fn same_settings(
        &self,
        operation: &OperationIr,
        other: &OperationIr,
    ) -> Result<(), ExportError> {
        let input = operation.nodes().into_iter().next();
        let dims = input.map_or_else(Vec::new, |tensor| self.dims_of(tensor));
        let [(rest, numbers), (other_rest, others)] =
            [operation, other].map(|of| Settings::of(of, &dims));
        // By their bits: what is no number is itself.
        let mut pairs = numbers.into_iter().zip(others);
        if let Some((first, second)) = pairs.find(|(one, other)| one.to_bits() != other.to_bits()) {
            return Err(ExportError::Number {
                operation: name_of(operation),
                place: self.place(),
                first,
                second,
            });
        }
        if rest == other_rest {
            Ok(())
        } else {
            Err(self.depends_on_batch(name_of(operation)))
        }
    }
}

/// Takes the tensors and numbers of an operation out.
struct Settings<'a> {
    /// The axes of the first input, whose ranges are visited in this order.
    dims: std::slice::Iter<'a, Dim>,
    numbers: Vec<f64>,
}

impl<'a> Settings<'a> {
    /// What is neither a tensor nor a number, and the numbers.
    fn of(operation: &OperationIr, dims: &'a [Dim]) -> (OperationIr, Vec<f64>) {
        let mut rest = operation.clone();
        let mut settings = Self {
            dims: dims.iter(),
            numbers: Vec::new(),
        };
        rest.visit_mut(&mut settings);
        // How often follows from the lengths.
        if let OperationIr::BaseFloat(BaseOperationIr::RepeatDim(of))
        | OperationIr::BaseInt(BaseOperationIr::RepeatDim(of))
        | OperationIr::BaseBool(BaseOperationIr::RepeatDim(of)) = &mut rest
        {
            of.times = 0;
        }
        (rest, settings.numbers)
    }
}

impl IrVisitorMut for Settings<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = TensorId::new(0);
        tensor.shape = Shape::from(Vec::<usize>::new());
        tensor.status = TensorStatus::NotInit;
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        self.numbers.push(float(*scalar));
        *scalar = ScalarIr::Bool(false);
    }

    /// Of the axis of the batch, the translation looks at the range itself.
    fn visit_range_mut(&mut self, range: &mut Slice) {
        if let Some(Dim::PerImage(_)) = self.dims.next() {
            *range = Slice::full();
        }
    }
}
