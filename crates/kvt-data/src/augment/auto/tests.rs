#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use serde::Deserialize;

use super::golden::{DrawCase, Golden, NAMES, difference};
use super::rand_augment::Set;
use super::*;
use crate::augment::Interpolation;

#[test]
fn operations_are_exactly_as_pillow_has_them() {
    let golden = Golden::open();
    let context = golden.context(0.45);
    let cases: Vec<(String, DrawCase)> = golden.list("draws");
    let mut seen = std::collections::BTreeSet::new();
    // The file also has shifts by pixels, which no policy has.
    let known = cases.iter().enumerate();
    for (index, (image, case)) in known.filter(|(_, (_, case))| case.is_known()) {
        let draw = case.draw();
        seen.insert(format!("{:?}", draw.name));
        let found = draw
            .op(&context)
            .apply(golden.image(&format!("input.{image}")));
        let expected = golden.image(&format!("draws.{index}"));
        assert_eq!(difference(&found, &expected), (0, 0), "{image}: {draw:?}");
    }
    assert_eq!(seen.len(), NAMES.len());
}

#[derive(Deserialize)]
struct ChainCase {
    auto: String,
    chains: Vec<Vec<DrawCase>>,
    weights: Option<Vec<f32>>,
    share: Option<f32>,
}

#[test]
fn chains_and_mixtures_are_exactly_as_pillow_has_them() {
    let golden = Golden::open();
    let cases: Vec<ChainCase> = golden.list("chains");
    for (index, case) in cases.iter().enumerate() {
        let chains = || {
            case.chains
                .iter()
                .map(|chain| chain.iter().map(DrawCase::draw).collect::<Vec<Draw>>())
        };
        let context = golden.context(if case.share.is_some() { 0.3 } else { 0.45 });
        let image = golden.chained();
        let found = match (case.auto.parse().unwrap(), &case.weights, case.share) {
            (Policy::Rand(_), ..) => op::apply_all(&chains().next().unwrap(), image, &context),
            (Policy::AugMix(policy), Some(weights), Some(share)) => {
                let mixture = Mixture {
                    chains: weights.iter().copied().zip(chains()).collect(),
                    share,
                    is_blended: policy.is_blended,
                };
                mixture.apply(&image, &context)
            }
            (other, ..) => panic!("{other:?}"),
        };
        let expected = golden.image(&format!("chains.{index}"));
        assert_eq!(
            difference(&found, &expected),
            (0, 0),
            "{index} {}",
            case.auto
        );
    }
}

/// Name, probability and magnitude.
type NamedStep = (String, f64, f64);

/// timm's tables, exported from timm.
#[test]
fn tables_are_timms() {
    let golden = Golden::open();
    let policies: BTreeMap<String, Vec<Vec<NamedStep>>> = golden.list("policies");
    assert_eq!(policies.len(), 5);
    for (name, chains) in policies {
        let Ok(Policy::SubPolicies(policy)) = name.parse() else {
            panic!("{name}");
        };
        let step = |&(name, prob, mean): &(OpName, f64, f64)| (format!("{name:?}"), prob, mean);
        let ours: Vec<Vec<_>> = policy
            .chains
            .iter()
            .map(|chain| policy.steps(chain).iter().map(step).collect())
            .collect();
        assert_eq!(ours, chains, "{name}");
    }
    let sets: BTreeMap<String, BTreeMap<String, f64>> = golden.list("sets");
    assert_eq!(sets.len(), 6);
    for (name, set) in sets {
        let plain = |names: &[OpName]| {
            names
                .iter()
                .map(|name| (format!("{name:?}"), 0.0))
                .collect()
        };
        let ours: BTreeMap<String, f64> = match name.parse().unwrap() {
            Policy::Rand(RandAugment {
                set: Set::Uniform(names),
                ..
            }) => plain(names),
            Policy::Rand(RandAugment {
                set: Set::Weighted(names),
                ..
            }) => names
                .iter()
                .map(|(name, weight)| (format!("{name:?}"), *weight))
                .collect(),
            Policy::AugMix(_) => plain(&super::augmix::NAMES),
            Policy::SubPolicies(_) => panic!("{name}"),
        };
        assert_eq!(ours, set, "{name}");
    }
}

fn draws(text: &str, n: u64) -> Vec<Vec<Draw>> {
    let policy: Policy = text.parse().unwrap();
    let draw = |seed| {
        let rng = &mut Key::new(seed).rng();
        match &policy {
            Policy::Rand(policy) => policy.draw(rng),
            Policy::SubPolicies(policy) => policy.draw(rng),
            Policy::AugMix(policy) => {
                let chains = policy.draw(rng).chains.into_iter();
                chains.flat_map(|(_, draws)| draws).collect()
            }
        }
    };
    (0..n).map(draw).collect()
}

fn counts(draws: &[Vec<Draw>]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for draw in draws.iter().flatten() {
        *counts.entry(format!("{:?}", draw.name)).or_insert(0) += 1;
    }
    counts
}

/// Mean and standard deviation of the magnitudes.
fn magnitudes(draws: &[Vec<Draw>]) -> (f64, f64) {
    let all: Vec<f64> = draws.iter().flatten().map(|draw| draw.magnitude).collect();
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let variance = all.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

/// DeiT's: two operations of 15, each with probability one half, N(7, 0.5), all signs and filters equally likely.
#[test]
fn the_laws_of_rand_augment() {
    let n = 15_000;
    let drawn = draws("rand-m7-mstd0.5-inc1", n);
    // Binomial(2, 1/2): 3750, 7500 and 3750, five standard deviations.
    let with = |count| drawn.iter().filter(|draws| draws.len() == count).count();
    assert!(
        with(0).abs_diff(3750) < 265 && with(1).abs_diff(7500) < 306,
        "{}",
        with(0)
    );
    assert_eq!(with(0) + with(1) + with(2), drawn.len());
    // 15 names, a thousand each, standard deviation 32.
    let names = counts(&drawn);
    assert_eq!(names.len(), 15);
    assert!(
        names.values().all(|count| count.abs_diff(1000) < 160),
        "{names:?}"
    );
    // With replacement: one pair in 15 has the same operation twice.
    let pairs: Vec<_> = drawn.iter().filter(|draws| draws.len() == 2).collect();
    let twice = pairs
        .iter()
        .filter(|pair| pair[0].name == pair[1].name)
        .count();
    assert!(twice.abs_diff(250) < 80, "{twice}");
    let (mean, std) = magnitudes(&drawn);
    assert!(
        (mean - 7.0).abs() < 0.02 && (std - 0.5).abs() < 0.015,
        "{mean} {std}"
    );
    for flag in [
        |draw: &Draw| draw.is_negative,
        |draw: &Draw| draw.is_bilinear,
    ] {
        let count = drawn.iter().flatten().filter(|draw| flag(draw)).count();
        assert!(count.abs_diff(7500) < 310, "{count}");
    }
}

#[test]
fn magnitudes_are_clipped_or_uniform() {
    // N(9, 2) clipped at 10, and not clipped with `mmax15`.
    let highest = |text| {
        let of = |draw: &Draw| draw.magnitude;
        draws(text, 2000)
            .iter()
            .flatten()
            .map(of)
            .fold(0.0, f64::max)
    };
    assert_eq!(highest("rand-m9-mstd2"), 10.0);
    let high = highest("rand-m9-mstd2-mmax15");
    assert!(high > 13.0 && high <= 15.0, "{high}");
    assert_eq!(highest("rand-m20"), 10.0);
    assert_eq!(highest("rand-m20-mmax30"), 20.0);
    // Uniform in [0, 8]: mean 4, standard deviation 8 / sqrt(12).
    for text in ["rand-m8-mstd101-n1-p1", "augmix-m8-w1-d1"] {
        let (mean, std) = magnitudes(&draws(text, 4000));
        assert!(
            (mean - 4.0).abs() < 0.19 && (std - 2.309).abs() < 0.1,
            "{text}: {mean} {std}"
        );
    }
    // AutoAugment's noise is always normal, as in timm.
    let (mean, _) = magnitudes(&draws("3a-mstd0.5", 2000));
    assert!(mean < 9.0, "{mean}");
}

/// Without replacement; the first choice is proportional to the weights.
#[test]
fn weighted_sets_choose_each_operation_once() {
    let drawn = draws("rand-m5-n2-p1-tweights", 8000);
    assert!(
        drawn
            .iter()
            .all(|pair| pair.len() == 2 && pair[0].name != pair[1].name)
    );
    let first: Vec<Vec<Draw>> = drawn.iter().map(|pair| vec![pair[0]]).collect();
    let names = counts(&first);
    // Weights 3, 2 and 0.25 of 10.1.
    for (name, weight) in [("Rotate", 3.0_f64), ("ShearX", 2.0), ("AutoContrast", 0.25)] {
        let p = weight / 10.1;
        let (expected, std) = (8000.0 * p, (8000.0 * p * (1.0 - p)).sqrt());
        let found = f64::from(names[name]);
        assert!(
            (found - expected).abs() < 5.0 * std,
            "{name}: {found}, not {expected}"
        );
    }
    let all = draws("rand-n15-p1-tweights", 3);
    assert!(
        all.iter()
            .all(|draws| counts(std::slice::from_ref(draws)).len() == 15)
    );
}

#[test]
fn policies_draw_one_of_their_chains() {
    // 3-Augment: each a third of the time, with its own strength.
    let drawn = draws("3a", 3000);
    let names = counts(&drawn);
    assert_eq!(
        names.keys().collect::<Vec<_>>(),
        ["Desaturate", "GaussianBlurRand", "Solarize"]
    );
    assert!(
        names.values().all(|count| count.abs_diff(1000) < 130),
        "{names:?}"
    );
    let context = Golden::open().context(0.45);
    for draw in drawn.iter().flatten() {
        match draw.op(&context) {
            Op::Solarize(threshold) => assert_eq!(threshold, 128),
            Op::Color(factor) => assert_eq!(factor, 0.0),
            Op::GaussianBlur(radius) => assert!((0.1..2.0).contains(&radius)),
            other => panic!("{other:?}"),
        }
    }
    // In `v0`, two of the 25 chains contain an operation with probability 0; operations with probability 1 are always applied.
    for text in ["original", "originalr", "v0", "v0r"] {
        let drawn = draws(text, 4000);
        assert!(drawn.iter().all(|draws| draws.len() <= 2));
        let (mean, _) = magnitudes(&drawn);
        assert!((2.0..9.0).contains(&mean));
        let names = counts(&drawn);
        assert_eq!(
            names.contains_key("PosterizeIncreasing"),
            text.ends_with('r'),
            "{names:?}"
        );
    }
    // Expected number of applied operations per image: the sum of the probabilities over 25 chains.
    let per_image = draws("v0", 8000).iter().map(Vec::len).sum::<usize>() as f64 / 8000.0;
    assert!((per_image - 29.8 / 25.0).abs() < 0.04, "{per_image}");
}

#[test]
fn the_shares_of_augmix() {
    let Ok(Policy::AugMix(policy)) = "augmix-m3-w4-a2".parse() else {
        panic!("a mixture");
    };
    let (n, mut shares, mut squares, mut first) = (3000_u64, 0.0, 0.0, 0.0);
    let mut depths = [0_u32; 4];
    for seed in 0..n {
        let mixture = policy.draw(&mut Key::new(seed).rng());
        let total: f32 = mixture.chains.iter().map(|(weight, _)| weight).sum();
        assert!((total - 1.0).abs() < 1e-6 && mixture.chains.len() == 4 && !mixture.is_blended);
        let share = f64::from(mixture.share);
        shares += share / n as f64;
        squares += share * share / n as f64;
        first += f64::from(mixture.chains[0].0) / n as f64;
        for (_, chain) in &mixture.chains {
            depths[chain.len()] += 1;
        }
    }
    // Beta(2, 2): mean 1/2, variance 1/20; Dirichlet: mean 1/4; depths 1 to 3 equally likely (of 12,000).
    assert!((shares - 0.5).abs() < 0.021 && (squares - shares * shares - 0.05).abs() < 0.005);
    assert!((first - 0.25).abs() < 0.014, "{first}");
    assert!(
        depths[1..].iter().all(|count| count.abs_diff(4000) < 260),
        "{depths:?}"
    );
    assert_eq!(depths[0], 0);
    assert!(
        draws("augmix-w2-d5", 3)
            .iter()
            .all(|draws| draws.len() == 10)
    );
}

#[test]
fn strings_that_mean_nothing_name_the_part() {
    let error = |text: &str| text.parse::<Policy>().unwrap_err().to_string();
    insta::assert_snapshot!(
        ["randaug", "rand-m9-foo1", "rand-m9-w0", "rand-m9.5", "rand-inc", "rand-mstdinf", "rand-m9-m3", "rand-tfoo", "rand-p2", "rand-",
         "rand-n16-tweights", "rand-inc2", "augmix-w0", "augmix-n2", "augmix-a0", "original-m9", "3a-mstdx1", "v0--mstd1", "rand m9"]
            .map(|text| format!("{text}: {}", error(text)))
            .join("\n"),
        @r#"
    randaug: expected `rand`, `augmix` or one of `original`, `originalr`, `v0`, `v0r`, `3a` in the place of `randaug`
    rand-m9-foo1: expected one of `m`, `n`, `p`, `mstd`, `mmax`, `inc`, `t` with its value in the place of `foo1`
    rand-m9-w0: expected one of `m`, `n`, `p`, `mstd`, `mmax`, `inc`, `t` with its value in the place of `w0`
    rand-m9.5: expected `m` with a whole number from 0 to 1000 in the place of `m9.5`
    rand-inc: expected one of `m`, `n`, `p`, `mstd`, `mmax`, `inc`, `t` with its value in the place of `inc`
    rand-mstdinf: expected one of `m`, `n`, `p`, `mstd`, `mmax`, `inc`, `t` with its value in the place of `mstdinf`
    rand-m9-m3: expected no second `m` in the place of `m3`
    rand-tfoo: expected `t3a`, `t3aw` or `tweights` in the place of `tfoo`
    rand-p2: expected `p` with a number from 0 to 1 in the place of `p2`
    rand-: expected one of `m`, `n`, `p`, `mstd`, `mmax`, `inc`, `t` with its value in the place of nothing
    rand-n16-tweights: expected `n` of at most 15, as many operations as the set has, in the place of `n16`
    rand-inc2: expected `inc` with a whole number from 0 to 1 in the place of `inc2`
    augmix-w0: expected `w` with a whole number from 1 to 100 in the place of `w0`
    augmix-n2: expected one of `m`, `w`, `d`, `a`, `b`, `mstd` with its value in the place of `n2`
    augmix-a0: expected `a` with a number from 0.1 to 1000 in the place of `a0`
    original-m9: expected `mstd` with its value in the place of `m9`
    3a-mstdx1: expected `mstd` with its value in the place of `mstdx1`
    v0--mstd1: expected `mstd` with its value in the place of nothing
    rand m9: expected `rand`, `augmix` or one of `original`, `originalr`, `v0`, `v0r`, `3a` in the place of `rand m9`
    "#
    );
}

#[test]
fn strings_of_published_recipes_are_read() {
    for text in [
        "rand-m9-mstd0.5-inc1",
        "rand-m9-n3-mstd0.5",
        "rand-m7-mstd0.5",
        "rand-n3-p0.25-m10-mmax10-inc0",
        "rand-mstd1-tweights",
        "rand-m9-t3a",
        "rand-m9-inc1-t3aw",
        "rand",
        "augmix-m5-w4-d2",
        "augmix-m3-b1-a0.5-mstd1.5",
        "original-mstd0.5",
        "v0",
    ] {
        assert!(text.parse::<Policy>().is_ok(), "{text}");
    }
    // Defaults: magnitude 10, two operations.
    assert_eq!(
        "rand".parse::<Policy>(),
        "rand-m10-n2-p0.5-inc0-mmax10".parse()
    );
    assert_eq!("augmix".parse::<Policy>(), "augmix-m3-w3-d0-a1-b0".parse());
}

/// Fill colour, filter and shifts follow the configuration as in timm's `create_transform`.
#[test]
fn the_context_follows_the_configuration() {
    let of = |auto: &str, interpolation| {
        let config = AugmentConfig {
            auto: auto.to_owned(),
            interpolation,
            ..AugmentConfig::default()
        };
        AutoAugment::new(&config).unwrap()
    };
    assert_eq!(of("", Interpolation::Bicubic), None);
    let rand = of("rand-m9", Interpolation::Bicubic).unwrap();
    // ImageNet's mean.
    assert_eq!(rand.context.fill, [124, 116, 104]);
    assert_eq!(rand.context.translate_share, 0.45);
    assert_eq!(
        of("augmix", Interpolation::Bicubic)
            .unwrap()
            .context
            .translate_share,
        0.3
    );
    let draw = |is_bilinear| Draw {
        name: OpName::Rotate,
        magnitude: 9.0,
        is_negative: true,
        is_bilinear,
        share: 0.0,
    };
    for (interpolation, expected) in [
        (Interpolation::Bicubic, [false; 2]),
        (Interpolation::Bilinear, [true; 2]),
        (Interpolation::Random, [false, true]),
    ] {
        let context = of("rand", interpolation).unwrap().context;
        let filters = [false, true].map(|is_bilinear| match draw(is_bilinear).op(&context) {
            Op::Rotate(degrees, sampling) => {
                assert_eq!((degrees, sampling.fill), (-27.0, [124, 116, 104]));
                sampling.is_bilinear
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(filters, expected);
    }
}
