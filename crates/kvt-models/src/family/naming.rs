//! Names of weights: the origins that are told apart, and the renaming between two of them.

/// The origin of the names of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// timm's.
    Timm,
    /// The names in the repository of the model's authors.
    Official,
}

/// Two names of each parameter: its own, and another.
#[derive(Clone, Copy)]
pub(crate) enum Renaming {
    /// The other and the own beginning of names; the first pair that fits is exchanged. `#` stands for a number, which is larger in
    /// the own one by what comes last.
    Beginnings(&'static [(&'static str, &'static str, usize)]),
    /// From the other name to the parameter's own, and the inverse.
    Functions([fn(&str) -> String; 2]),
}

impl Renaming {
    /// The names are the same.
    pub(crate) const NONE: Self = Self::Beginnings(&[]);

    /// From the other name to the parameter's own.
    pub(crate) fn own(self, other: &str) -> String {
        match self {
            Self::Beginnings(pairs) => {
                let mut pairs = pairs.iter();
                let renamed = pairs.find_map(|(from, to, shift)| {
                    exchanged(other, from, to, |number| number.checked_add(*shift))
                });
                renamed.unwrap_or_else(|| other.to_owned())
            }
            Self::Functions([own, _]) => own(other),
        }
    }

    /// From the parameter's own name to the other.
    pub(crate) fn other(self, own: &str) -> String {
        match self {
            Self::Beginnings(pairs) => {
                let mut pairs = pairs.iter();
                let renamed = pairs.find_map(|(to, from, shift)| {
                    exchanged(own, from, to, |number| number.checked_sub(*shift))
                });
                renamed.unwrap_or_else(|| own.to_owned())
            }
            Self::Functions([_, other]) => other(own),
        }
    }
}

/// A name with the beginning `to` instead of `from`, if it has that, and with another number at its `#`.
fn exchanged(
    name: &str,
    from: &str,
    to: &str,
    shift: impl Fn(usize) -> Option<usize>,
) -> Option<String> {
    let Some((before, after)) = from.split_once('#') else {
        return Some(format!("{to}{}", name.strip_prefix(from)?));
    };
    let rest = name.strip_prefix(before)?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (number, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let number = shift(number.parse().ok()?)?.to_string();
    let rest = rest.strip_prefix(after)?;
    Some(format!("{}{rest}", to.replace('#', &number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_exchanged_in_both_directions() {
        let renaming = Renaming::Beginnings(&[
            ("pools.#.", "stages.#.pool.", 1),
            ("places#", "place.#", 0),
            ("head.", "head.fc.", 0),
        ]);
        for (other, own) in [
            ("pools.0.conv.bias", "stages.1.pool.conv.bias"),
            ("pools.9.fc.bias", "stages.10.pool.fc.bias"),
            ("places3", "place.3"),
            ("places12.x", "place.12.x"),
            ("head.weight", "head.fc.weight"),
            ("norm.weight", "norm.weight"),
        ] {
            assert_eq!(renaming.own(other), own);
            assert_eq!(renaming.other(own), other);
        }
        // No parameter has these names, but a file may.
        let largest = format!("pools.{}.x", usize::MAX);
        for other in [
            "pools.x.y",
            "pools.1",
            "pools.",
            "pools.é.",
            largest.as_str(),
        ] {
            assert_eq!(renaming.own(other), other);
        }
        for own in ["stages.0.pool.x", "stages.1.blocks.x", "stages"] {
            assert_eq!(renaming.other(own), own);
        }
    }
}
