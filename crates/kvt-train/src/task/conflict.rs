//! Settings that conflict with a task, found before anything is created.

use kvt_models::ModelError;

use crate::config::Plan;

/// A key that conflicts with the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The key.
    pub(crate) key: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: String,
}

impl Conflict {
    pub(super) fn new(
        key: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            key,
            message: message.into(),
            help: help.into(),
        }
    }

    /// Those that are there, of keys with what is wrong with them and what to do.
    pub(super) fn of<M: Into<String>>(
        keys: impl IntoIterator<Item = (bool, &'static str, M, &'static str)>,
    ) -> impl Iterator<Item = Self> {
        let there = keys.into_iter().filter(|(is_there, ..)| *is_there);
        there.map(|(_, key, message, help)| Self::new(key, message, help))
    }

    /// Of a model that cannot be the backbone of a dense network.
    pub(super) fn of_backbone(error: &ModelError) -> Self {
        let (key, help) = match error {
            ModelError::OutOfRange {
                field: "window_size",
                ..
            } => (
                "model.window_size",
                "set it to less, or leave it out: a dense network does not make windows smaller where a map is",
            ),
            _ => ("model.name", "take a model of the families Swin or Twins"),
        };
        Self::new(key, error.to_string(), help)
    }

    /// If a plan mixes images or tokens: the key that does, with what is wrong about it.
    pub(super) fn of_mixing(
        plan: &Plan,
        message: String,
    ) -> (bool, &'static str, String, &'static str) {
        let mix = &plan.mix;
        let keys = [
            ("mix.mixup", mix.mixup),
            ("mix.cutmix", mix.cutmix),
            ("mix.mix_token", mix.mix_token),
        ];
        let key = keys.into_iter().find(|(_, value)| *value > 0.0);
        (
            mix.is_on(),
            key.map_or("mix.cutmix_minmax", |(key, _)| key),
            message,
            "set `mix.mixup`, `mix.cutmix` and `mix.mix_token` to 0, and leave out `mix.cutmix_minmax`",
        )
    }
}
