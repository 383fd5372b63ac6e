//! timm's policy strings: a name, and sections of a key and a number, joined by dashes, as in `rand-m9-mstd0.5-inc1`.
//!
//! Stricter than timm, which ignores a section without a number or a set with an unknown name, and accepts some sections
//! twice: anything without a meaning is an error.

use std::ops::RangeInclusive;
use std::str::FromStr;

use rand_distr::Gamma;

use super::op::{Magnitude, Noise};
use super::rand_augment::{INCREASING, PLAIN, THREE, THREE_WEIGHTED, WEIGHTED};
use super::sub_policies::POLICIES;
use super::{AugMix, Policy, RandAugment, SubPolicies};

/// An invalid part of a policy string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", self.wanted())]
pub struct AutoError {
    /// The part.
    pub part: String,
    /// What is allowed there.
    pub expected: String,
}

impl AutoError {
    fn new(part: &str, expected: impl Into<String>) -> Self {
        Self {
            part: part.to_owned(),
            expected: expected.into(),
        }
    }

    /// Of any policy for images with alpha.
    pub(super) fn of_rgba(auto: &str) -> Self {
        let expected = "no policy, `--set augment.auto=` or `auto = \"\"` under `[augment]`, for images with alpha (`model.in_chans = 4`), \
                        to which Pillow does not apply its operations,";
        Self::new(auto, expected)
    }

    /// What is expected, and instead of what.
    pub fn wanted(&self) -> String {
        match self.part.as_str() {
            "" => format!("{} in the place of nothing", self.expected),
            part => format!("{} in the place of `{part}`", self.expected),
        }
    }
}

impl FromStr for Policy {
    type Err = AutoError;

    fn from_str(text: &str) -> Result<Self, AutoError> {
        let mut sections = text.split('-');
        match sections.next().unwrap_or_default() {
            "rand" => rand_augment(&Sections::of(
                sections,
                &["m", "n", "p", "mstd", "mmax", "inc", "t"],
            )?),
            "augmix" => augmix(&Sections::of(sections, &["m", "w", "d", "a", "b", "mstd"])?),
            name => match POLICIES.into_iter().find(|(known, ..)| *known == name) {
                Some((_, chains, posterize)) => Ok(Self::SubPolicies(SubPolicies {
                    chains,
                    posterize,
                    noise: Sections::of(sections, &["mstd"])?
                        .noise(f64::INFINITY)?
                        .unwrap_or(Noise::Normal(0.0)),
                })),
                None => {
                    let policies = POLICIES.map(|(name, ..)| format!("`{name}`")).join(", ");
                    let expected = format!("`rand`, `augmix` or one of {policies}");
                    Err(AutoError::new(name, expected))
                }
            },
        }
    }
}

/// `rand`: magnitude, number of operations, probability of each, noise of the magnitude, its limit, which set.
fn rand_augment(sections: &Sections<'_>) -> Result<Policy, AutoError> {
    let is_increasing = sections.whole("inc", 0..=1)? == Some(1);
    let set = match sections.value("t") {
        None if is_increasing => INCREASING,
        None => PLAIN,
        Some("3a") => THREE,
        Some("3aw") => THREE_WEIGHTED,
        Some("weights") => WEIGHTED,
        Some(other) => {
            let expected = "`t3a`, `t3aw` or `tweights`";
            return Err(AutoError::new(&format!("t{other}"), expected));
        }
    };
    let layers = sections.whole("n", 0..=100)?.unwrap_or(2) as usize;
    if let Some(limit) = set.limit()
        && layers > limit
    {
        let expected = format!("`n` of at most {limit}, as many operations as the set has,");
        return Err(AutoError::new(&format!("n{layers}"), expected));
    }
    Ok(Policy::Rand(RandAugment {
        layers,
        prob: sections.number("p", 0.0..=1.0)?.unwrap_or(0.5),
        magnitude: Magnitude {
            noise: sections.noise(100.0)?.unwrap_or(Noise::Normal(0.0)),
            max: match sections.whole("mmax", 0..=1000)? {
                None | Some(0) => 10.0,
                Some(max) => f64::from(max),
            },
            ..Magnitude::fixed(f64::from(sections.whole("m", 0..=1000)?.unwrap_or(10)))
        },
        set,
    }))
}

/// `augmix`: magnitude, number of chains, their length, the parameter of Dirichlet and Beta, blended, noise of the magnitude.
fn augmix(sections: &Sections<'_>) -> Result<Policy, AutoError> {
    let alpha = sections.number("a", 0.1..=1000.0)?.unwrap_or(1.0);
    let depth = sections.whole("d", 0..=100)?.unwrap_or(0) as usize;
    Ok(Policy::AugMix(AugMix {
        width: sections.whole("w", 1..=100)?.unwrap_or(3) as usize,
        depth: (depth > 0).then_some(depth),
        magnitude: Magnitude {
            noise: sections.noise(f64::INFINITY)?.unwrap_or(Noise::Uniform),
            ..Magnitude::fixed(f64::from(sections.whole("m", 0..=1000)?.unwrap_or(3)))
        },
        is_blended: sections.whole("b", 0..=1)? == Some(1),
        gamma: Gamma::new(alpha, 1.0)
            .map_err(|error| AutoError::new(&format!("a{alpha}"), error.to_string()))?,
    }))
}

/// The sections after the name: keys and their values.
struct Sections<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Sections<'a> {
    /// Takes the parts between the dashes. Each begins with one of `keys`, and each key occurs at most once.
    fn of(parts: impl Iterator<Item = &'a str>, keys: &[&'static str]) -> Result<Self, AutoError> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            // The name of a set can contain digits; all other keys end at the first digit.
            let end = match part.strip_prefix('t') {
                Some(_) => 1,
                None => part
                    .find(|c: char| c.is_ascii_digit())
                    .unwrap_or(part.len()),
            };
            let (key, value) = part.split_at(end);
            if value.is_empty() || !keys.contains(&key) {
                let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                let one_of = if keys.len() > 1 { "one of " } else { "" };
                let expected = format!("{one_of}{} with its value", known.join(", "));
                return Err(AutoError::new(part, expected));
            }
            if found.iter().any(|(other, _)| *other == key) {
                let expected = format!("no second `{key}`");
                return Err(AutoError::new(part, expected));
            }
            found.push((key, value));
        }
        Ok(Self(found))
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| *value)
    }

    fn whole(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, AutoError> {
        self.parsed(key, &range, "a whole number")
    }

    fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, AutoError> {
        self.parsed(key, &range, "a number")
    }

    fn parsed<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        key: &str,
        range: &RangeInclusive<T>,
        kind: &str,
    ) -> Result<Option<T>, AutoError> {
        let Some(text) = self.value(key) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (low, high) = (range.start(), range.end());
                let expected = format!("`{key}` with {kind} from {low} to {high}");
                Err(AutoError::new(&format!("{key}{text}"), expected))
            }
        }
    }

    /// `mstd`: uniform noise above `uniform_above`.
    fn noise(&self, uniform_above: f64) -> Result<Option<Noise>, AutoError> {
        let std = self.number("mstd", 0.0..=1e6)?;
        let noise = |std| {
            if std > uniform_above {
                Noise::Uniform
            } else {
                Noise::Normal(std)
            }
        };
        Ok(std.map(noise))
    }
}
