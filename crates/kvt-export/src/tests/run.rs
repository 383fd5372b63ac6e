//! A naive interpreter of the operators that are written, by the words of ONNX's specification. Every number is in f64, whatever
//! its type.

use std::collections::HashMap;

use crate::graph::{INPUT, OUTPUT};
use crate::proto::{Attribute, Constant, Graph, Node};

/// Numbers, row by row.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

/// What a graph says of images.
pub(super) fn run(graph: &Graph, images: Value) -> Value {
    let mut values = HashMap::from([(INPUT, images)]);
    let constants = graph.initializer.iter();
    values.extend(constants.map(|constant| (constant.name.as_str(), read(constant))));
    for node in &graph.node {
        let inputs: Vec<&Value> = node
            .input
            .iter()
            .filter(|name| !name.is_empty())
            .map(|name| &values[name.as_str()])
            .collect();
        let found = apply(node, &inputs);
        values.extend(node.output.iter().map(String::as_str).zip(found));
    }
    values.remove(OUTPUT).unwrap()
}

fn read(constant: &Constant) -> Value {
    let bytes = &constant.raw_data;
    let four = || bytes.chunks_exact(4).map(|of| of.try_into().unwrap());
    let eight = || bytes.chunks_exact(8).map(|of| of.try_into().unwrap());
    let data = match constant.data_type {
        1 => four().map(|of| f64::from(f32::from_le_bytes(of))).collect(),
        6 => four().map(|of| f64::from(i32::from_le_bytes(of))).collect(),
        7 => eight().map(|of| i64::from_le_bytes(of) as f64).collect(),
        9 => bytes.iter().map(|of| f64::from(*of)).collect(),
        other => panic!("type {other}"),
    };
    let shape = constant.dims.iter().map(|length| *length as usize);
    Value::new(shape.collect(), data)
}

/// All places of a shape, row by row.
fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..shape.iter().product()).map(move |mut index: usize| {
        let mut place = vec![0; shape.len()];
        for (at, length) in place.iter_mut().zip(shape).rev() {
            *at = index % length;
            index /= length;
        }
        place
    })
}

/// The shape that two become.
fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |axis| shape[axis])
    };
    let lengths = (0..rank).map(|axis| match (length(a, axis), length(b, axis)) {
        (1, length) | (length, 1) => length,
        (a, b) => {
            assert_eq!(a, b);
            a
        }
    });
    lengths.collect()
}

impl Value {
    pub(super) fn new(shape: Vec<usize>, data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "{shape:?}");
        Self { shape, data }
    }

    fn of(shape: Vec<usize>, number: impl Fn(&[usize]) -> f64) -> Self {
        let data = places(&shape).map(|place| number(&place)).collect();
        Self { shape, data }
    }

    /// Where a place is; a length of 1 is at every place.
    fn index(&self, place: &[usize]) -> usize {
        let skip = place.len() - self.shape.len();
        let pairs = self.shape.iter().zip(&place[skip..]);
        pairs.fold(0, |index, (length, at)| {
            index * length + if *length == 1 { 0 } else { *at }
        })
    }

    fn at(&self, place: &[usize]) -> f64 {
        self.data[self.index(place)]
    }

    fn ints(&self) -> Vec<i64> {
        self.data.iter().map(|x| *x as i64).collect()
    }

    fn sizes(&self) -> Vec<usize> {
        self.data.iter().map(|x| *x as usize).collect()
    }

    /// What becomes of the numbers along an axis.
    fn along(&self, axis: usize, length: usize, of: impl Fn(Vec<f64>) -> Vec<f64>) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = length;
        let mut out = Self::of(shape.clone(), |_| 0.0);
        shape[axis] = 1;
        for mut place in places(&shape) {
            let line = (0..self.shape[axis]).map(|at| {
                place[axis] = at;
                self.at(&place)
            });
            for (at, x) in of(line.collect()).into_iter().enumerate() {
                place[axis] = at;
                let index = out.index(&place);
                out.data[index] = x;
            }
        }
        out
    }
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name == name)
}

fn int(node: &Node, name: &str, default: i64) -> i64 {
    attribute(node, name).map_or(default, |attribute| attribute.i)
}

fn sizes(node: &Node, name: &str) -> Vec<usize> {
    let ints = attribute(node, name).map(|attribute| attribute.ints.iter());
    ints.unwrap().map(|size| *size as usize).collect()
}

/// `erf` by its series; from 4 on it is 1 but for 2e-8.
fn erf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn truth(of: bool) -> f64 {
    f64::from(u8::from(of))
}

fn apply(node: &Node, inputs: &[&Value]) -> Vec<Value> {
    let op = node.op_type.as_str();
    let each: Option<fn(f64) -> f64> = match op {
        "Abs" => Some(f64::abs),
        "Neg" => Some(|x| -x),
        "Sqrt" => Some(f64::sqrt),
        "Exp" => Some(f64::exp),
        "Log" => Some(f64::ln),
        "Erf" => Some(erf),
        "Tanh" => Some(f64::tanh),
        "Reciprocal" => Some(f64::recip),
        "Relu" => Some(|x| x.max(0.0)),
        "Sigmoid" => Some(|x| 1.0 / (1.0 + (-x).exp())),
        "IsNaN" => Some(|x| truth(x.is_nan())),
        "Not" => Some(|x| 1.0 - x),
        "Identity" => Some(|x| x),
        _ => None,
    };
    let pair: Option<fn(f64, f64) -> f64> = match op {
        "Add" => Some(|a, b| a + b),
        "Sub" => Some(|a, b| a - b),
        "Mul" => Some(|a, b| a * b),
        "Div" => Some(|a, b| a / b),
        "Pow" => Some(f64::powf),
        "And" => Some(|a, b| a * b),
        "Or" => Some(f64::max),
        "Equal" => Some(|a, b| truth(a == b)),
        "Greater" => Some(|a, b| truth(a > b)),
        "GreaterOrEqual" => Some(|a, b| truth(a >= b)),
        "Less" => Some(|a, b| truth(a < b)),
        "LessOrEqual" => Some(|a, b| truth(a <= b)),
        _ => None,
    };
    // What has no input is refused below.
    let Some(x) = inputs.first() else {
        panic!("{op} without an input")
    };
    if let Some(of) = each {
        return vec![Value::of(x.shape.clone(), |place| of(x.at(place)))];
    }
    if let Some(of) = pair {
        let shape = broadcast(&x.shape, &inputs[1].shape);
        return vec![Value::of(shape, |place| {
            of(x.at(place), inputs[1].at(place))
        })];
    }
    let axis = match int(node, "axis", if op == "Softmax" { -1 } else { 0 }) {
        axis if axis < 0 => x.shape.len() - axis.unsigned_abs() as usize,
        axis => axis as usize,
    };
    let moved = |place: &[usize], axis: usize, to: usize| {
        let mut place = place.to_vec();
        place[axis] = to;
        place
    };
    vec![match op {
        "Where" => {
            let (a, b) = (inputs[1], inputs[2]);
            let shape = broadcast(&broadcast(&x.shape, &a.shape), &b.shape);
            Value::of(shape, |place| {
                if x.at(place) == 0.0 {
                    b.at(place)
                } else {
                    a.at(place)
                }
            })
        }
        "Cast" => {
            let of = |x: f64| match int(node, "to", 0) {
                6 | 7 => x.trunc(),
                9 => truth(x != 0.0),
                _ => x,
            };
            Value::of(x.shape.clone(), |place| of(x.at(place)))
        }
        "Shape" => Value::new(
            vec![x.shape.len()],
            x.shape.iter().map(|length| *length as f64).collect(),
        ),
        "ConstantOfShape" => {
            let value = attribute(node, "value").and_then(|value| value.t.as_ref());
            let number = read(value.unwrap()).data[0];
            Value::of(x.sizes(), |_| number)
        }
        "Reshape" => {
            let rest: i64 = inputs[1]
                .ints()
                .iter()
                .filter(|length| **length > 0)
                .product();
            let shape =
                inputs[1]
                    .ints()
                    .into_iter()
                    .enumerate()
                    .map(|(axis, length)| match length {
                        0 => x.shape[axis],
                        -1 => x.data.len() / rest as usize,
                        length => length as usize,
                    });
            Value::new(shape.collect(), x.data.clone())
        }
        "Transpose" => {
            let perm = sizes(node, "perm");
            Value::of(perm.iter().map(|axis| x.shape[*axis]).collect(), |place| {
                let mut from = place.to_vec();
                perm.iter()
                    .zip(place)
                    .for_each(|(axis, at)| from[*axis] = *at);
                x.at(&from)
            })
        }
        "Expand" => Value::of(broadcast(&x.shape, &inputs[1].sizes()), |place| x.at(place)),
        "Tile" => {
            let shape = x
                .shape
                .iter()
                .zip(inputs[1].sizes())
                .map(|(length, times)| length * times);
            Value::of(shape.collect(), |place| {
                let from: Vec<usize> = place
                    .iter()
                    .zip(&x.shape)
                    .map(|(at, length)| at % length)
                    .collect();
                x.at(&from)
            })
        }
        "Slice" => {
            let [starts, ends, axes, steps] = [1, 2, 3, 4].map(|input| inputs[input].ints());
            let mut ranges: Vec<(i64, i64)> = vec![(0, 1); x.shape.len()];
            let mut shape = x.shape.clone();
            for (i, axis) in axes.into_iter().enumerate() {
                let (axis, step) = (axis as usize, steps[i]);
                let length = x.shape[axis] as i64;
                let from_end = |at: i64| if at < 0 { at + length } else { at };
                let bound = |at: i64, low: i64, high: i64| from_end(at).clamp(low, high);
                let (start, end) = if step > 0 {
                    (bound(starts[i], 0, length), bound(ends[i], 0, length))
                } else {
                    (
                        bound(starts[i], 0, length - 1),
                        bound(ends[i], -1, length - 1),
                    )
                };
                let count = (end - start + step - step.signum()) / step;
                ranges[axis] = (start, step);
                shape[axis] = count.max(0) as usize;
            }
            Value::of(shape, |place| {
                let pairs = place.iter().zip(&ranges);
                let from: Vec<usize> = pairs
                    .map(|(at, (start, step))| (start + *at as i64 * step) as usize)
                    .collect();
                x.at(&from)
            })
        }
        "Gather" => {
            let index = inputs[1];
            let (before, after) = (&x.shape[..axis], &x.shape[axis + 1..]);
            let end = axis + index.shape.len();
            Value::of([before, &index.shape, after].concat(), |place| {
                let at = index.at(&place[axis..end]) as usize;
                x.at(&[&place[..axis], &[at], &place[end..]].concat())
            })
        }
        "GatherElements" => {
            let index = inputs[1];
            Value::of(index.shape.clone(), |place| {
                x.at(&moved(place, axis, index.at(place) as usize))
            })
        }
        "ScatterElements" => {
            let (index, new) = (inputs[1], inputs[2]);
            let mut out = (*x).clone();
            for place in places(&index.shape) {
                let to = out.index(&moved(&place, axis, index.at(&place) as usize));
                out.data[to] = new.at(&place);
            }
            out
        }
        "Concat" => {
            let mut shape = x.shape.clone();
            shape[axis] = inputs.iter().map(|part| part.shape[axis]).sum();
            Value::of(shape, |place| {
                let mut at = place[axis];
                for part in inputs {
                    if at < part.shape[axis] {
                        return part.data[part
                            .shape
                            .iter()
                            .zip(moved(place, axis, at))
                            .fold(0, |index, (length, at)| index * length + at)];
                    }
                    at -= part.shape[axis];
                }
                panic!("{place:?} is behind the last part")
            })
        }
        "Pad" => {
            let (pads, rank) = (inputs[1].ints(), x.shape.len());
            let shape = (0..rank)
                .map(|axis| (x.shape[axis] as i64 + pads[axis] + pads[rank + axis]) as usize);
            Value::of(shape.collect(), |place| {
                let from: Option<Vec<usize>> = (0..rank)
                    .map(|axis| {
                        usize::try_from(place[axis] as i64 - pads[axis])
                            .ok()
                            .filter(|at| *at < x.shape[axis])
                    })
                    .collect();
                from.map_or(inputs[2].data[0], |from| x.at(&from))
            })
        }
        // Only lower bounds are written without the other.
        "Clip" => {
            let bounds: Vec<Option<f64>> = {
                let mut given = inputs[1..].iter().map(|bound| bound.data[0]);
                let names = node.input[1..].iter();
                names
                    .map(|name| if name.is_empty() { None } else { given.next() })
                    .collect()
            };
            Value::of(x.shape.clone(), |place| {
                let low = bounds[0].map_or(x.at(place), |low| x.at(place).max(low));
                bounds[1].map_or(low, |high| low.min(high))
            })
        }
        "ReduceMean" => x.along(sizes(node, "axes")[0], 1, |line| {
            vec![line.iter().sum::<f64>() / line.len() as f64]
        }),
        "ReduceMax" => x.along(sizes(node, "axes")[0], 1, |line| {
            vec![line.into_iter().fold(f64::NEG_INFINITY, f64::max)]
        }),
        "ReduceMin" => x.along(sizes(node, "axes")[0], 1, |line| {
            vec![line.into_iter().fold(f64::INFINITY, f64::min)]
        }),
        "ReduceSum" => inputs[1].sizes().into_iter().fold((*x).clone(), |x, axis| {
            x.along(axis, 1, |line| vec![line.iter().sum()])
        }),
        "CumSum" => {
            let axis = inputs[1].sizes()[0];
            x.along(axis, x.shape[axis], |line| {
                let sums = line.into_iter().scan(0.0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                });
                sums.collect()
            })
        }
        "Softmax" => x.along(axis, x.shape[axis], |line| {
            let largest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = line.iter().map(|x| (x - largest).exp()).collect();
            powers
                .iter()
                .map(|x| x / powers.iter().sum::<f64>())
                .collect()
        }),
        "TopK" => {
            let k = inputs[1].sizes()[0];
            let best = |line: Vec<f64>| {
                let mut order: Vec<(usize, f64)> = line.into_iter().enumerate().collect();
                // Stable: of equal numbers, the first.
                order.sort_by(|a, b| b.1.total_cmp(&a.1));
                order
            };
            let values = x.along(axis, k, |line| {
                best(line).into_iter().take(k).map(|(_, x)| x).collect()
            });
            let indices = x.along(axis, k, |line| {
                best(line)
                    .into_iter()
                    .take(k)
                    .map(|(at, _)| at as f64)
                    .collect()
            });
            return vec![values, indices];
        }
        "MatMul" => matmul(x, inputs[1]),
        "LayerNormalization" => {
            let epsilon = attribute(node, "epsilon").unwrap().f;
            let last = x.shape.len() - 1;
            let normed = x.along(last, x.shape[last], |line| {
                let mean = line.iter().sum::<f64>() / line.len() as f64;
                let variance =
                    line.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / line.len() as f64;
                line.iter()
                    .map(|x| (x - mean) / (variance + f64::from(epsilon)).sqrt())
                    .collect()
            });
            let (gamma, beta) = (inputs[1], inputs.get(2));
            Value::of(x.shape.clone(), |place| {
                normed.at(place) * gamma.at(place) + beta.map_or(0.0, |beta| beta.at(place))
            })
        }
        "BatchNormalization" => {
            let epsilon = f64::from(attribute(node, "epsilon").unwrap().f);
            Value::of(x.shape.clone(), |place| {
                let [gamma, beta, mean, variance] =
                    [1, 2, 3, 4].map(|at| inputs[at].data[place[1]]);
                (x.at(place) - mean) / (variance + epsilon).sqrt() * gamma + beta
            })
        }
        "Conv" => {
            let (weight, group) = (inputs[1], int(node, "group", 1) as usize);
            let (outputs, of_group) = (weight.shape[0], weight.shape[1]);
            windows(node, x, outputs, &weight.shape[2..], |out, pixels| {
                let first = out / (outputs / group) * of_group;
                let bias = inputs.get(2).map_or(0.0, |bias| bias.data[out]);
                let channels = 0..of_group;
                bias + channels
                    .flat_map(|channel| pixels.iter().map(move |pixel| (channel, pixel)))
                    .map(|(channel, (window, at))| {
                        x.at(&[at[0], first + channel, at[1], at[2]])
                            * weight.at(&[out, channel, window[0], window[1]])
                    })
                    .sum::<f64>()
            })
        }
        "MaxPool" => windows(
            node,
            x,
            x.shape[1],
            &sizes(node, "kernel_shape"),
            |channel, pixels| {
                let pixels = pixels
                    .iter()
                    .map(|(_, at)| x.at(&[at[0], channel, at[1], at[2]]));
                pixels.fold(f64::NEG_INFINITY, f64::max)
            },
        ),
        "AveragePool" => {
            let kernel = sizes(node, "kernel_shape");
            let all = int(node, "count_include_pad", 0) == 1;
            windows(node, x, x.shape[1], &kernel, |channel, pixels| {
                let sum: f64 = pixels
                    .iter()
                    .map(|(_, at)| x.at(&[at[0], channel, at[1], at[2]]))
                    .sum();
                sum / if all {
                    kernel.iter().product()
                } else {
                    pixels.len()
                } as f64
            })
        }
        "GlobalAveragePool" => [2, 3].into_iter().fold((*x).clone(), |x, axis| {
            x.along(axis, 1, |line| {
                vec![line.iter().sum::<f64>() / line.len() as f64]
            })
        }),
        other => panic!("no `{other}` has been written before"),
    }]
}

fn matmul(a: &Value, b: &Value) -> Value {
    let split = |of: &Value| {
        let (outer, inner) = of.shape.split_at(of.shape.len() - 2);
        (outer.to_vec(), inner.to_vec())
    };
    let ((a_outer, a_inner), (b_outer, b_inner)) = (split(a), split(b));
    let outer = broadcast(&a_outer, &b_outer);
    let ([m, n], [k, p]) = ([a_inner[0], a_inner[1]], [b_inner[0], b_inner[1]]);
    assert_eq!(n, k);
    let mut data = Vec::new();
    for place in places(&outer) {
        let start = [place, vec![0, 0]].concat();
        let [a_start, b_start] = [a, b].map(|of| of.index(&start[start.len() - of.shape.len()..]));
        for row in 0..m {
            let row = &a.data[a_start + row * n..][..n];
            let mut sums = vec![0.0; p];
            for (x, row) in row.iter().zip(b.data[b_start..].chunks_exact(p)) {
                sums.iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
            data.extend(sums);
        }
    }
    Value::new([outer, vec![m, p]].concat(), data)
}

/// A pixel of a window: its place in the window, and its image, row and column.
type Pixel = ([usize; 2], [usize; 3]);

/// What becomes of the pixels of each window that are not in the padding, for each channel.
fn windows(
    node: &Node,
    x: &Value,
    channels: usize,
    kernel: &[usize],
    of: impl Fn(usize, &[Pixel]) -> f64,
) -> Value {
    let (strides, pads) = (sizes(node, "strides"), sizes(node, "pads"));
    let dilations = attribute(node, "dilations").map_or(vec![1, 1], |_| sizes(node, "dilations"));
    assert_eq!(int(node, "ceil_mode", 0), 0);
    let lengths: Vec<usize> = (0..2)
        .map(|axis| {
            let room = x.shape[2 + axis] + pads[axis] + pads[2 + axis]
                - dilations[axis] * (kernel[axis] - 1)
                - 1;
            room / strides[axis] + 1
        })
        .collect();
    Value::of(
        vec![x.shape[0], channels, lengths[0], lengths[1]],
        |place| {
            let pixels = places(kernel).filter_map(|window| {
                let at = |axis: usize| {
                    let at = place[2 + axis] * strides[axis] + window[axis] * dilations[axis];
                    at.checked_sub(pads[axis])
                        .filter(|at| *at < x.shape[2 + axis])
                };
                Some(([window[0], window[1]], [place[0], at(0)?, at(1)?]))
            });
            of(place[1], &pixels.collect::<Vec<_>>())
        },
    )
}
