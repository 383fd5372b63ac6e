//! Section 4.2.2: dense attention estimated from samples, beside the exact sum.

use kvt_attention::AttentionError;
use kvt_attention::scram::{Estimator, PatchMatch, Proposal, Tokens};
use kvt_ops::Key;

use super::super::{Item, Make, Outcome, ReproduceError, Watch, table};
use super::input::{self, product};
use super::{full, weights};
use kvt_train::analysis::Moments;
use kvt_train::plot::{Axis, ErrorLine, LinePanel, line_panels};
use kvt_train::table::{Table, cells, or_empty};

/// How much of it is computed.
struct Estimators {
    side: usize,
    samples: &'static [usize],
    draws: Draws,
}

/// How often an estimate is repeated: pairs of means, over so many runs each.
#[derive(Clone, Copy)]
struct Draws {
    pairs: usize,
    runs: usize,
}

const DIM: usize = 64;
/// Not stated in the paper: the search, the proposal, and the deviation of a chain's steps, which is that of the Gaussians here.
const KEPT: usize = 4;
const SEPARATION: usize = 3;
const ALPHA: f64 = 0.8;
const LENGTH: f64 = 2.0;
/// Radii of the windows around the modes, whose keys are summed without sampling.
const RADII: [usize; 3] = [0, 1, 2];

/// The map of a vision transformer at 224 px.
const PAPER: Estimators = Estimators {
    side: 14,
    samples: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
    draws: Draws { pairs: 16, runs: 4 },
};

#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// Importance sampling around the modes.
    Mixture,
    /// Importance sampling without modes.
    Uniform,
    /// Metropolis-Hastings.
    Chains,
    /// The softmax over the keys that were found.
    Sparse,
}

impl Method {
    const ALL: [Self; 4] = [Self::Mixture, Self::Uniform, Self::Chains, Self::Sparse];

    fn name(self) -> &'static str {
        match self {
            Self::Mixture => "importance",
            Self::Uniform => "uniform",
            Self::Chains => "chains",
            Self::Sparse => "sparse",
        }
    }
}

/// One estimate of all outputs, and what it says about itself.
struct Drawn {
    output: Vec<f64>,
    /// The sum of its variances by equation 15.
    variance: Option<f64>,
    effective: Option<f64>,
    accepted: Option<f64>,
}

/// A method with so many samples of each query. Squares are relative to the squared length of the exact output of all queries.
struct Record {
    method: Method,
    samples: f64,
    bias: f64,
    /// Standard error of the bias.
    error: Option<f64>,
    spread: Option<f64>,
    /// What equation 15 says of the spread.
    predicted: Option<f64>,
    effective: Option<f64>,
    accepted: Option<f64>,
}

/// Bias and spread of SCRAM's estimators.
pub(crate) const ITEM: Item = Item {
    name: "scram-estimators",
    title: "SCRAM: bias and spread of the estimators by the number of samples",
    stated: "[SCRAM](https://arxiv.org/abs/1905.10308), section 4.2.2: sums over the keys that the search finds \"will almost always be \
     biased\"; \"the Monte Carlo estimators we describe below do not have this drawback\": self-normalised importance sampling \
     around the modes (equations 12 to 17), and Metropolis-Hastings chains that start at them. \"We never wish to use n or more \
     samples\".\n\n\
     Not stated: any number, α, the Gaussians' deviation φ, the number of modes and their separation L, the steps of the chains.",
    make: Make::Alone(|_, watch| PAPER.compute(watch)),
    ..Item::PLAIN
};

impl Estimators {
    fn compute(&self, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
        let key = Key::new(0).named("scram-estimators");
        let [queries, keys] = input::shifted(key, self.side, 9, DIM);
        let values = input::noise(key.named("values"), keys.len());
        let tokens = Tokens::new(&queries, &keys, DIM, [self.side, self.side])?;
        let search = PatchMatch {
            kept: KEPT,
            separation: SEPARATION,
            iterations: 8,
        };
        let modes = search.search(&tokens, key.named("modes"));
        let count = tokens.tokens();
        let of_query = (0..count).map(|query| modes.matches(0, query).count());
        let all_modes: usize = of_query.sum();
        let scale = (DIM as f64).powf(-0.5);
        let estimator = Estimator::new(tokens, &values, scale, &modes)?;
        let exact = sums(&values, (0..count).map(|query| full(&tokens, query, scale)));

        let sampled = [Method::Mixture, Method::Uniform, Method::Chains];
        let (steps, mut done) = (self.samples.len() * sampled.len(), 0);
        let mut records = Vec::new();
        for method in sampled {
            for &samples in self.samples {
                done += 1;
                // Every chain makes one step or more.
                if method != Method::Chains || samples >= KEPT {
                    let key = key.named(method.name()).child(samples as u64);
                    let draw = |run| drawn(method, &estimator, samples, key.child(run));
                    let mut record = self.draws.measure(method, &exact, draw)?;
                    record.samples = if method == Method::Chains {
                        (samples / KEPT * all_modes) as f64 / count as f64
                    } else {
                        samples as f64
                    };
                    records.push(record);
                }
                watch.progress(done, steps);
            }
        }
        for radius in RADII {
            let near: Vec<_> = (0..count)
                .map(|query| modes.candidates(0, query, radius))
                .collect();
            let added: usize = near.iter().map(Vec::len).sum();
            let queries = near.iter().enumerate();
            let found = queries.map(|(query, keys)| weights(&tokens, query, scale, keys));
            records.push(Record {
                samples: added as f64 / count as f64,
                ..sparse(&exact, &sums(&values, found))
            });
        }
        Outcome::of(csv(&records), self.svg(&records), self.found(&records))
    }

    fn svg(&self, records: &[Record]) -> Result<String, String> {
        type Point = (f64, Option<f64>);
        let panel = |title: &str, of: fn(&Record) -> Option<Point>| {
            let line = |(color, method): (usize, Method)| {
                let own = records.iter().filter(|record| record.method == method);
                let points = own.filter_map(|record| {
                    let (value, error) = of(record)?;
                    let error = error.map(|error| 100.0 * error);
                    Some((record.samples, 100.0 * value, error))
                });
                ErrorLine {
                    dashed: method == Method::Sparse,
                    ..ErrorLine::new(method.name(), color, points)
                }
            };
            let ticks = self.samples.iter().map(|samples| *samples as f64);
            LinePanel {
                title: title.to_owned(),
                x: Axis::logarithmic("samples of a query, keys of a sum").at(ticks.collect()),
                y: Axis::logarithmic("% of the exact output"),
                lines: Method::ALL.into_iter().enumerate().map(line).collect(),
                y_holds: Vec::new(),
            }
        };
        let panels = [
            panel("Bias, and its standard error", Record::bias),
            panel("Spread", |record| Some((record.spread?.sqrt(), None))),
        ];
        line_panels(
            "Estimates of dense attention beside the exact sum",
            &panels,
            2,
        )
    }

    fn found(&self, records: &[Record]) -> String {
        let row = |record: &Record| {
            let mut row = vec![record.method.name().to_owned()];
            row.extend(record.cells());
            row
        };
        let rows: Vec<_> = records.iter().map(row).collect();
        let header = "estimator | samples, or keys | bias, % | spread, % | spread by equation 15, % | effective samples | \
                      accepted steps";
        let at = |method: Method, samples: f64, cell: usize| {
            let mut own = records.iter().filter(|record| record.method == method);
            let found = own.find(|record| record.samples >= samples);
            found.map_or_else(String::new, |record| record.cells()[cell].clone())
        };
        let Self { side, draws, .. } = self;
        format!(
            "A map of {side} x {side} with {DIM} channels: queries and keys are bicubic interpolations of 9 x 9 normal numbers with 5 % of \
             noise, keys rolled by 5 rows and 3 columns; values are normal numbers. The search: κ = {KEPT}, L = {SEPARATION}, 8 iterations. \
             *importance*: α = {ALPHA}, Gaussians of deviation {LENGTH}. *uniform*: the same with α = 0, which needs no search. *chains*: one \
             from each mode, steps of deviation {LENGTH}, their samples counted together. *sparse*: the softmax over the keys in windows \
             around the modes, b = 0, 1 and 2, which draws nothing.\n\n\
             {} runs each, all queries. Bias is the length of the difference between the mean estimate and the exact output, divided by the \
             length of the exact output, both over all queries; spread is the root of the summed variance of an estimate, divided by the same. \
             The squared bias is the mean product of the errors of two means of {} runs each, {} times, so that spread does not \
             count as bias; it is given where it is more than two standard errors, and else what it is less than. Equation 15 is with normalised \
             weights.\n\n{}\n\
             **So** no estimator is unbiased for so few samples, and none of them beats a sum: importance sampling around the modes has a bias of \
             {} % with 64 samples and {} % with 256 (more than there are keys), and a single estimate is off by another {} % and {} %, while \
             the sum over the {} keys of b = 2 is off by {} % and draws nothing. Uniform samples have more bias, {} % with 64, and the \
             chains, which weigh all modes alike, the most, {} %.\n",
            2 * draws.pairs * draws.runs,
            draws.runs,
            draws.pairs,
            table(header.split(" | "), &rows),
            at(Method::Mixture, 64.0, 1),
            at(Method::Mixture, 256.0, 1),
            at(Method::Mixture, 64.0, 2),
            at(Method::Mixture, 256.0, 2),
            at(Method::Sparse, 50.0, 0),
            at(Method::Sparse, 50.0, 1),
            at(Method::Uniform, 64.0, 1),
            at(Method::Chains, 64.0, 1),
        )
    }
}

/// The outputs of all queries, by their weights.
fn sums(values: &[f32], weights: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut all = Vec::new();
    for weights in weights {
        let mut output = [0.0; DIM];
        for (weight, value) in weights.iter().zip(values.chunks_exact(DIM)) {
            for (output, value) in output.iter_mut().zip(value) {
                *output += weight * f64::from(*value);
            }
        }
        all.extend(output);
    }
    all
}

fn drawn(
    method: Method,
    estimator: &Estimator<'_>,
    samples: usize,
    key: Key,
) -> Result<Drawn, AttentionError> {
    if method == Method::Chains {
        let chains = estimator.metropolis(samples / KEPT, LENGTH, key)?;
        return Ok(Drawn {
            output: chains.output,
            variance: None,
            effective: None,
            accepted: Some(chains.acceptance),
        });
    }
    let proposal = Proposal {
        alpha: if method == Method::Mixture {
            ALPHA
        } else {
            0.0
        },
        length: LENGTH,
    };
    let found = estimator.importance(proposal, samples, key)?;
    let effective = found.effective.iter().sum::<f64>() / found.effective.len() as f64;
    Ok(Drawn {
        output: found.output,
        // One sample has no differences to say anything with.
        variance: (samples > 1).then(|| found.variance.iter().sum()),
        effective: Some(effective),
        accepted: None,
    })
}

impl Draws {
    /// Repeats an estimate. The product of the errors of two independent means is the squared bias in the mean, whatever their spread.
    fn measure(
        self,
        method: Method,
        exact: &[f64],
        draw: impl Fn(u64) -> Result<Drawn, AttentionError>,
    ) -> Result<Record, ReproduceError> {
        let length = product(exact, exact);
        let (runs, mut run) = (self.runs as f64, 0);
        let [
            mut bias,
            mut spread,
            mut predicted,
            mut effective,
            mut accepted,
        ] = [Moments::default(); 5];
        for _ in 0..self.pairs {
            let mut errors = [(); 2].map(|()| exact.iter().map(|x| -x).collect::<Vec<f64>>());
            for error in &mut errors {
                for _ in 0..self.runs {
                    let drawn = draw(run)?;
                    run += 1;
                    for (error, output) in error.iter_mut().zip(&drawn.output) {
                        *error += output / runs;
                    }
                    predicted.extend(drawn.variance.map(|sum| sum / length));
                    effective.extend(drawn.effective);
                    accepted.extend(drawn.accepted);
                }
            }
            let [a, b] = &errors;
            bias.extend([product(a, b) / length]);
            let apart: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
            spread.extend([apart * runs / 2.0 / length]);
        }
        let mean = |moments: Moments| moments.estimate().map(|found| found.mean);
        Ok(Record {
            method,
            samples: 0.0,
            bias: mean(bias).unwrap_or(f64::NAN),
            error: bias.estimate().and_then(|found| found.error),
            spread: mean(spread),
            predicted: mean(predicted),
            effective: mean(effective),
            accepted: mean(accepted),
        })
    }
}

/// A sum that is the same in every run.
fn sparse(exact: &[f64], output: &[f64]) -> Record {
    let error: Vec<f64> = output.iter().zip(exact).map(|(a, b)| a - b).collect();
    Record {
        method: Method::Sparse,
        samples: 0.0,
        bias: product(&error, &error) / product(exact, exact),
        error: None,
        spread: None,
        predicted: None,
        effective: None,
        accepted: None,
    }
}

impl Record {
    /// Relative bias and its standard error; `None` if it is less than two standard errors of its square.
    fn bias(&self) -> Option<(f64, Option<f64>)> {
        let root = self.bias.sqrt();
        let told = self.bias > 2.0 * self.error.unwrap_or(0.0);
        told.then(|| (root, self.error.map(|error| error / (2.0 * root))))
    }

    /// The cells of the page, without the method.
    fn cells(&self) -> [String; 6] {
        let percent = |square: f64| format!("{:.1}", 100.0 * square.sqrt());
        let bias = match self.bias() {
            Some((bias, Some(error))) => format!("{:.1} ± {:.1}", 100.0 * bias, 100.0 * error),
            Some((bias, None)) => format!("{:.1}", 100.0 * bias),
            None => {
                let most = self.bias.max(0.0) + 2.0 * self.error.unwrap_or(0.0);
                format!("< {}", percent(most))
            }
        };
        [
            short(self.samples),
            bias,
            or_empty(self.spread.map(percent)),
            or_empty(self.predicted.map(percent)),
            or_empty(self.effective.map(short)),
            or_empty(self.accepted.map(|share| format!("{:.0} %", 100.0 * share))),
        ]
    }
}

/// A number with one decimal, or none if that is 0.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn csv(records: &[Record]) -> String {
    let rows = records.iter().map(|record| {
        let number = |value: Option<f64>| or_empty(value.map(|x| format!("{x:.8}")));
        cells([
            &record.method.name(),
            &short(record.samples),
            &number(Some(record.bias)),
            &number(record.error),
            &number(record.spread),
            &number(record.predicted),
            &number(record.effective),
            &number(record.accepted),
        ])
    });
    let header = "estimator,samples,bias_squared,standard_error,spread_squared,predicted_spread_squared,effective,accepted";
    Table::new(header.split(','), rows).csv()
}

#[cfg(test)]
mod tests;
