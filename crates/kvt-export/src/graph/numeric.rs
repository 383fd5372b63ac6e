//! Operations that compute number by number, or along an axis.

use burn::backend::ir::{
    FloatOperationIr, NumericOperationIr, OperationIr, PadModeIr, ReduceDimOpIr, ScalarIr,
    ScalarOpIr, TensorIr,
};
use burn::tensor::DType;

use super::Builder;
use super::base::float;
use crate::error::ExportError;
use crate::proto::Attribute;

impl Builder<'_> {
    pub(super) fn numeric(
        &mut self,
        of: &NumericOperationIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        use NumericOperationIr as Of;
        match of {
            Of::Add(of) => self.operator("Add", [&of.lhs, &of.rhs], [], &of.out),
            Of::Sub(of) => self.operator("Sub", [&of.lhs, &of.rhs], [], &of.out),
            Of::Mul(of) => self.operator("Mul", [&of.lhs, &of.rhs], [], &of.out),
            Of::Div(of) => self.operator("Div", [&of.lhs, &of.rhs], [], &of.out),
            Of::AddScalar(of) => self.with_scalar("Add", of),
            Of::SubScalar(of) => self.with_scalar("Sub", of),
            Of::MulScalar(of) => self.with_scalar("Mul", of),
            Of::DivScalar(of) => self.with_scalar("Div", of),
            Of::PowiScalar(of) => self.power(of),
            Of::Powi(of) => self.operator("Pow", [&of.lhs, &of.rhs], [], &of.out),
            Of::Greater(of) => self.operator("Greater", [&of.lhs, &of.rhs], [], &of.out),
            Of::GreaterElem(of) => self.with_scalar("Greater", of),
            Of::GreaterEqual(of) => {
                self.operator("GreaterOrEqual", [&of.lhs, &of.rhs], [], &of.out)
            }
            Of::GreaterEqualElem(of) => self.with_scalar("GreaterOrEqual", of),
            Of::Lower(of) => self.operator("Less", [&of.lhs, &of.rhs], [], &of.out),
            Of::LowerElem(of) => self.with_scalar("Less", of),
            Of::LowerEqual(of) => self.operator("LessOrEqual", [&of.lhs, &of.rhs], [], &of.out),
            Of::LowerEqualElem(of) => self.with_scalar("LessOrEqual", of),
            Of::Abs(of) => self.operator("Abs", [&of.input], [], &of.out),
            Of::Neg(of) => self.operator("Neg", [&of.input], [], &of.out),
            Of::Sign(of) => self.operator("Sign", [&of.input], [], &of.out),
            Of::Full(of) => self.fill(float(of.value), &of.out),
            Of::MeanDim(of) => self.reduce("ReduceMean", of),
            Of::MaxDim(of) => self.reduce("ReduceMax", of),
            Of::MinDim(of) => self.reduce("ReduceMin", of),
            Of::SumDim(of) => self.sum(&of.input, &[of.axis], &of.out),
            Of::SumDims(of) => self.sum(&of.input, &of.axes, &of.out),
            Of::TopKWithIndices(of) => self.top_k(
                &of.tensor,
                of.dim,
                of.k,
                Some(&of.out),
                Some(&of.out_indices),
            ),
            Of::TopK(of) => self.top_k(&of.input, of.axis, of.accumulator_len, Some(&of.out), None),
            Of::ArgTopK(of) => {
                self.top_k(&of.input, of.axis, of.accumulator_len, None, Some(&of.out))
            }
            // Of counts, in 32 bits: tract adds no others up.
            Of::CumSum(of) => {
                let (x, axis) = (self.read(&of.input)?, self.axis(of.axis));
                if of.out.dtype != DType::I64 {
                    return self.named("CumSum", [x, axis], &of.out);
                }
                let x = self.node("Cast", [x], [Attribute::int("to", 6)]);
                self.named("CumSum", [x, axis], &of.out)?;
                self.cast(&of.out, &of.out)
            }
            Of::Clamp(of) => self.clip(&of.tensor, Some(of.min), Some(of.max), &of.out),
            Of::ClampMin(of) => self.clip(&of.lhs, Some(of.rhs), None, &of.out),
            Of::ClampMax(of) => self.clip(&of.lhs, None, Some(of.rhs), &of.out),
            Of::Pad(of) => {
                let PadModeIr::Constant(value) = of.mode else {
                    return Err(self.unknown(operation));
                };
                let before = of.padding.iter().map(|(before, _)| *before as i64);
                let after = of.padding.iter().map(|(_, after)| *after as i64);
                let pads: Vec<i64> = before.chain(after).collect();
                let (x, pads) = (self.read(&of.input)?, self.ints(&pads));
                let value = self.number(value, &of.input)?;
                self.named("Pad", [x, pads, value], &of.out)
            }
            _ => Err(self.unknown(operation)),
        }
    }

    pub(super) fn float(
        &mut self,
        of: &FloatOperationIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        use FloatOperationIr as Of;
        match of {
            Of::Exp(of) => self.operator("Exp", [&of.input], [], &of.out),
            Of::Log(of) => self.operator("Log", [&of.input], [], &of.out),
            Of::Erf(of) => self.operator("Erf", [&of.input], [], &of.out),
            Of::Sqrt(of) => self.operator("Sqrt", [&of.input], [], &of.out),
            Of::Cos(of) => self.operator("Cos", [&of.input], [], &of.out),
            Of::Sin(of) => self.operator("Sin", [&of.input], [], &of.out),
            Of::Tanh(of) => self.operator("Tanh", [&of.input], [], &of.out),
            Of::Floor(of) => self.operator("Floor", [&of.input], [], &of.out),
            Of::Ceil(of) => self.operator("Ceil", [&of.input], [], &of.out),
            Of::Recip(of) => self.operator("Reciprocal", [&of.input], [], &of.out),
            Of::IsNan(of) => self.operator("IsNaN", [&of.input], [], &of.out),
            Of::PowfScalar(of) => self.power(of),
            Of::Powf(of) => self.operator("Pow", [&of.lhs, &of.rhs], [], &of.out),
            Of::IntoInt(of) => self.cast(&of.input, &of.out),
            Of::Matmul(of) => self.operator("MatMul", [&of.lhs, &of.rhs], [], &of.out),
            _ => Err(self.unknown(operation)),
        }
    }

    /// An operator of a value and a number.
    pub(super) fn with_scalar(
        &mut self,
        operator: &str,
        of: &ScalarOpIr,
    ) -> Result<(), ExportError> {
        let (x, number) = (self.read(&of.lhs)?, self.number(of.rhs, &of.lhs)?);
        self.named(operator, [x, number], &of.out)
    }

    fn power(&mut self, of: &ScalarOpIr) -> Result<(), ExportError> {
        if float(of.rhs) == 2.0 {
            return self.operator("Mul", [&of.lhs, &of.lhs], [], &of.out);
        }
        self.with_scalar("Pow", of)
    }

    fn reduce(&mut self, operator: &str, of: &ReduceDimOpIr) -> Result<(), ExportError> {
        let axes = Attribute::ints("axes", [of.axis]);
        self.operator(operator, [&of.input], [axes], &of.out)
    }

    fn sum(&mut self, x: &TensorIr, axes: &[usize], out: &TensorIr) -> Result<(), ExportError> {
        let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        let (x, axes) = (self.read(x)?, self.ints(&axes));
        self.named("ReduceSum", [x, axes], out)
    }

    fn clip(
        &mut self,
        x: &TensorIr,
        min: Option<ScalarIr>,
        max: Option<ScalarIr>,
        out: &TensorIr,
    ) -> Result<(), ExportError> {
        let mut inputs = vec![self.read(x)?];
        for bound in [min, max] {
            // A bound that is left out has an empty name.
            inputs.push(bound.map_or(Ok(String::new()), |bound| self.number(bound, x))?);
        }
        self.named("Clip", inputs, out)
    }

    /// The largest numbers along an axis, and where they are. Both of Burn and ONNX find equal ones at lower indices first.
    fn top_k(
        &mut self,
        x: &TensorIr,
        axis: usize,
        k: usize,
        values: Option<&TensorIr>,
        indices: Option<&TensorIr>,
    ) -> Result<(), ExportError> {
        let (x, k) = (self.read(x)?, self.ints(&[k as i64]));
        let name = self.node("TopK", [x, k], [Attribute::int("axis", axis as i64)]);
        let places = format!("{name}_indices");
        if let Some(node) = self.nodes.last_mut() {
            node.output.push(places.clone());
        }
        if let Some(values) = values {
            self.set(values, name);
        }
        let Some(indices) = indices else {
            return Ok(());
        };
        self.set(indices, places);
        // ONNX has them in 64 bits.
        match self.element_of(indices)? {
            7 => Ok(()),
            _ => self.cast(indices, indices),
        }
    }
}
