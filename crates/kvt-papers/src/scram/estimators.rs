//! Section 4.2.2: dense attention estimated from samples, beside the exact sum.

mod measured;

use kvt_attention::AttentionError;
use kvt_attention::scram::{Estimator, Proposal, Tokens};
use kvt_ops::Key;

use self::measured::{Drawn, Draws, Measured};
use super::{full, input, search, weights};
use crate::{Item, Make, Outcome, ReproduceError, Watch, table};
use kvt_train::plot::{Axis, ErrorLine, LinePanel, line_panels};
use kvt_train::table::{Table, cells, or_empty};

const DIM: usize = 64;
/// Not stated in the paper: the search, the proposal, and the deviation of a chain's steps, which is that of the Gaussians here.
const KEPT: usize = 4;
const SEPARATION: usize = 3;
const ALPHA: f64 = 0.8;
const LENGTH: f64 = 2.0;
/// Radii of the windows around the modes, whose keys are summed without sampling.
const RADII: [usize; 3] = [0, 1, 2];

/// The map of a vision transformer at 224 px.
const SIDE: usize = 14;
const SAMPLES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const DRAWS: Draws = Draws { pairs: 16, runs: 4 };

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

/// A method with so many samples of each query, or so many keys.
struct Record {
    method: Method,
    samples: f64,
    measured: Measured,
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
    make: Make::Alone(|_, watch| compute(SIDE, &SAMPLES, DRAWS, watch)),
    ..Item::PLAIN
};

fn compute(
    side: usize,
    samples: &[usize],
    draws: Draws,
    watch: &dyn Watch,
) -> Result<Outcome, ReproduceError> {
    let key = Key::new(0).named("scram-estimators");
    let [queries, keys] = input::shifted(key, side, 9, DIM);
    let values = input::noise(key.named("values"), keys.len());
    let tokens = Tokens::new(&queries, &keys, DIM, [side, side])?;
    let modes = search(&tokens, KEPT, SEPARATION, key.named("modes"));
    let count = tokens.tokens();
    let of_query = (0..count).map(|query| modes.matches(0, query).count());
    let all_modes: usize = of_query.sum();
    let scale = (DIM as f64).powf(-0.5);
    let estimator = Estimator::new(tokens, &values, scale, &modes)?;
    let exact = sums(&values, (0..count).map(|query| full(&tokens, query, scale)));

    let sampled = [Method::Mixture, Method::Uniform, Method::Chains];
    let (steps, mut done) = (samples.len() * sampled.len(), 0);
    let mut records = Vec::new();
    for method in sampled {
        for &samples in samples {
            done += 1;
            // Every chain makes one step or more.
            if method != Method::Chains || samples >= KEPT {
                let key = key.named(method.name()).child(samples as u64);
                let draw = |run| drawn(method, &estimator, samples, key.child(run));
                records.push(Record {
                    method,
                    samples: match method {
                        Method::Chains => (samples / KEPT * all_modes) as f64 / count as f64,
                        _ => samples as f64,
                    },
                    measured: draws.measure(&exact, draw)?,
                });
            }
            watch.progress(done, steps);
        }
    }
    for radius in RADII {
        let near = (0..count).map(|query| modes.candidates(0, query, radius));
        let near: Vec<_> = near.collect();
        let added: usize = near.iter().map(Vec::len).sum();
        let found = near.iter().enumerate();
        let found = found.map(|(query, keys)| weights(&tokens, query, scale, keys));
        records.push(Record {
            method: Method::Sparse,
            samples: added as f64 / count as f64,
            measured: Measured::of_sum(&exact, &sums(&values, found)),
        });
    }
    Outcome::of(
        csv(&records),
        svg(&records, samples),
        found(&records, side, draws),
    )
}

fn svg(records: &[Record], samples: &[usize]) -> Result<String, String> {
    type Point = (f64, Option<f64>);
    let panel = |title: &str, of: fn(&Measured) -> Option<Point>| {
        let line = |(color, method): (usize, Method)| {
            let own = records.iter().filter(|record| record.method == method);
            let points = own.filter_map(|record| {
                let (value, error) = of(&record.measured)?;
                let error = error.map(|error| 100.0 * error);
                Some((record.samples, 100.0 * value, error))
            });
            ErrorLine {
                dashed: method == Method::Sparse,
                ..ErrorLine::new(method.name(), color, points)
            }
        };
        let ticks = samples.iter().map(|samples| *samples as f64);
        LinePanel {
            title: title.to_owned(),
            x: Axis::logarithmic("samples of a query, keys of a sum").at(ticks.collect()),
            y: Axis::logarithmic("% of the exact output"),
            lines: Method::ALL.into_iter().enumerate().map(line).collect(),
            y_holds: Vec::new(),
        }
    };
    let panels = [
        panel("Bias, and its standard error", Measured::bias),
        panel("Spread", |measured| Some((measured.spread?.sqrt(), None))),
    ];
    line_panels(
        "Estimates of dense attention beside the exact sum",
        &panels,
        2,
    )
}

fn found(records: &[Record], side: usize, draws: Draws) -> String {
    let row = |record: &Record| {
        let mut row = vec![record.method.name().to_owned(), short(record.samples)];
        row.extend(record.measured.cells());
        row
    };
    let rows: Vec<_> = records.iter().map(row).collect();
    let header = "estimator | samples, or keys | bias, % | spread, % | spread by equation 15, % | effective samples | \
                  accepted steps";
    let at = |method: Method, samples: f64| {
        let mut own = records.iter().filter(|record| record.method == method);
        own.find(|record| record.samples >= samples)
    };
    let bias =
        |method, samples| or_empty(at(method, samples).map(|found| found.measured.bias_text()));
    let spread = |samples| {
        or_empty(at(Method::Mixture, samples).and_then(|found| found.measured.spread_text()))
    };
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
        bias(Method::Mixture, 64.0),
        bias(Method::Mixture, 256.0),
        spread(64.0),
        spread(256.0),
        or_empty(at(Method::Sparse, 50.0).map(|found| short(found.samples))),
        bias(Method::Sparse, 50.0),
        bias(Method::Uniform, 64.0),
        bias(Method::Chains, 64.0),
    )
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
            accepted: Some(chains.acceptance),
            ..Drawn::default()
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

/// A number with one decimal, or none if that is 0.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn csv(records: &[Record]) -> String {
    let rows = records.iter().map(|record| {
        let Record {
            method,
            samples,
            measured,
        } = record;
        let numbers = [
            Some(measured.bias),
            measured.error,
            measured.spread,
            measured.predicted,
            measured.effective,
            measured.accepted,
        ];
        let numbers = numbers.map(|value| or_empty(value.map(|x| format!("{x:.8}"))));
        [&cells([&method.name(), &short(*samples)])[..], &numbers].concat()
    });
    let header = "estimator,samples,bias_squared,standard_error,spread_squared,predicted_spread_squared,effective,accepted";
    Table::new(header.split(','), rows).csv()
}

#[cfg(test)]
mod tests;
