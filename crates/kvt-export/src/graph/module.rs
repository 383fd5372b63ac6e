//! Operations of layers.

use std::f64::consts::FRAC_1_SQRT_2;

use burn::backend::ir::{ActivationOperationIr, ModuleOperationIr, OperationIr, ScalarIr};

use super::Builder;
use super::base::float;
use crate::error::ExportError;
use crate::proto::Attribute;

impl Builder<'_> {
    pub(super) fn module(
        &mut self,
        of: &ModuleOperationIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        use ModuleOperationIr as Of;
        match of {
            Of::Linear(of) => {
                let (x, weight) = (self.read(&of.x)?, self.read(&of.weight)?);
                let mut name = self.node("MatMul", [x, weight], []);
                if let Some(bias) = &of.bias {
                    let bias = self.read(bias)?;
                    name = self.node("Add", [name, bias], []);
                }
                self.set(&of.out, name);
                Ok(())
            }
            Of::LayerNorm(of) => {
                let inputs = [&of.input, &of.gamma].into_iter().chain(&of.beta);
                let epsilon = Attribute::float("epsilon", float(of.epsilon) as f32);
                let axis = Attribute::int("axis", -1);
                self.operator("LayerNormalization", inputs, [axis, epsilon], &of.out)
            }
            Of::BatchNorm(of) => {
                let inputs = [&of.x, &of.gamma, &of.beta, &of.mean, &of.variance];
                let epsilon = Attribute::float("epsilon", float(of.epsilon) as f32);
                self.operator("BatchNormalization", inputs, [epsilon], &of.out)
            }
            Of::Conv2d(of) => {
                let options = &of.options;
                let [top, left] = options.padding.map(|(before, _)| before);
                let [bottom, right] = options.padding.map(|(_, after)| after);
                let kernel = of.weight.shape.as_slice().iter().skip(2).copied();
                let attributes = [
                    Attribute::ints("kernel_shape", kernel),
                    Attribute::ints("strides", options.stride),
                    Attribute::ints("pads", [top, left, bottom, right]),
                    Attribute::ints("dilations", options.dilation),
                    Attribute::int("group", options.groups as i64),
                ];
                let inputs = [&of.x, &of.weight].into_iter().chain(&of.bias);
                self.operator("Conv", inputs, attributes, &of.out)
            }
            Of::MaxPool2d(of) => {
                let attributes = [
                    Attribute::ints("kernel_shape", of.kernel_size),
                    Attribute::ints("strides", of.stride),
                    Attribute::ints("pads", [of.padding, of.padding].concat()),
                    Attribute::ints("dilations", of.dilation),
                    Attribute::int("ceil_mode", i64::from(of.ceil_mode)),
                ];
                self.operator("MaxPool", [&of.x], attributes, &of.out)
            }
            Of::AvgPool2d(of) => {
                let attributes = [
                    Attribute::ints("kernel_shape", of.kernel_size),
                    Attribute::ints("strides", of.stride),
                    Attribute::ints("pads", [of.padding, of.padding].concat()),
                    Attribute::int("count_include_pad", i64::from(of.count_include_pad)),
                    Attribute::int("ceil_mode", i64::from(of.ceil_mode)),
                ];
                self.operator("AveragePool", [&of.x], attributes, &of.out)
            }
            Of::AdaptiveAvgPool2d(of) if of.output_size == [1, 1] => {
                self.operator("GlobalAveragePool", [&of.x], [], &of.out)
            }
            _ => Err(self.unknown(operation)),
        }
    }

    pub(super) fn activation(
        &mut self,
        of: &ActivationOperationIr,
        operation: &OperationIr,
    ) -> Result<(), ExportError> {
        use ActivationOperationIr as Of;
        match of {
            Of::Relu(of) => self.operator("Relu", [&of.input], [], &of.out),
            Of::Sigmoid(of) => self.operator("Sigmoid", [&of.input], [], &of.out),
            Of::Softmax(of) => self.along("Softmax", of.axis, [&of.input], &of.out),
            Of::LogSoftmax(of) => self.along("LogSoftmax", of.axis, [&of.input], &of.out),
            // ONNX has an operator of its own for it only later.
            Of::Gelu(of) => {
                let x = self.read(&of.input)?;
                let factors = [FRAC_1_SQRT_2, 1.0, 0.5].map(ScalarIr::Float);
                let [root, one, half] = factors.map(|factor| self.number(factor, &of.input));
                let scaled = self.node("Mul", [x.clone(), root?], []);
                let erf = self.node("Erf", [scaled], []);
                let above = self.node("Add", [erf, one?], []);
                let twice = self.node("Mul", [x, above], []);
                self.named("Mul", [twice, half?], &of.out)
            }
            _ => Err(self.unknown(operation)),
        }
    }
}
