//! Names of checkpoints and their order by age.

use std::fmt;

/// When a checkpoint of a step was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// After the updates, but before their evaluation.
    BeforeEval,
    /// After all work for the updates.
    Done,
}

/// The name of a checkpoint's folder, `step-00001234[-before-eval][-2]`. A later checkpoint of a run is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    /// Optimizer updates done.
    pub(super) step: u64,
    pub(super) stage: Stage,
    /// Counts repeated saves of a step, in runs resumed from before it: from 1, which is not written.
    pub(super) attempt: u64,
}

const PREFIX: &str = "step-";
const BEFORE_EVAL: &str = "before-eval";

impl Name {
    pub(super) fn new(step: u64, stage: Stage) -> Self {
        Self {
            step,
            stage,
            attempt: 1,
        }
    }

    /// The next name for the same step.
    pub(super) fn again(self) -> Self {
        Self {
            attempt: self.attempt + 1,
            ..self
        }
    }

    /// `None` for a name that [`Display`](fmt::Display) does not write: such a folder is not ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (step, rest) = rest.split_once('-').unwrap_or((rest, ""));
        let (stage, rest) = match rest.strip_prefix(BEFORE_EVAL) {
            Some(rest) => (Stage::BeforeEval, rest.strip_prefix('-').unwrap_or(rest)),
            None => (Stage::Done, rest),
        };
        let name = Self {
            step: step.parse().ok()?,
            stage,
            attempt: match rest {
                "" => 1,
                attempt => attempt.parse().ok()?,
            },
        };
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:08}", self.step)?;
        if self.stage == Stage::BeforeEval {
            write!(f, "-{BEFORE_EVAL}")?;
        }
        if self.attempt > 1 {
            write!(f, "-{}", self.attempt)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_are_in_the_order_of_the_run() {
        let in_order = [
            "step-00000000",
            "step-00000009-2",
            "step-00000010-before-eval",
            "step-00000010-before-eval-2",
            "step-00000010",
            "step-00000010-3",
            "step-00000010-20",
            "step-99999999",
            "step-100000000",
        ];
        let names: Vec<Option<Name>> = in_order.iter().map(|text| Name::parse(text)).collect();
        assert!(
            names.iter().all(Option::is_some) && names.is_sorted(),
            "{names:?}"
        );
        for (name, text) in names.iter().flatten().zip(in_order) {
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn other_folders_have_no_such_name() {
        for text in [
            "best",
            "step-",
            "step-x",
            "step-7",
            "step-00000010-1",
            "step-00000010-",
            "step-00000010-copy",
            "step-00000010-before-evaluation",
            "step-00000010-before-eval-1",
            "set-aside-step-00000010",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
