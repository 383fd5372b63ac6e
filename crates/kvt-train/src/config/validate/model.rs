//! `[model]`.

use std::ops::{RangeBounds as _, RangeInclusive};

use super::{Checks, POSITIVE, SHARE};
use crate::config::choices::RawAttentionKind;
use crate::config::document::closest;
use crate::config::plan::{AttentionKind, AttentionPlan, ModelPlan, NeighborsSetting};
use crate::config::problem::Problem;
use crate::config::raw::{RawNeighbor, RawNeighbors};

/// Outside of these scores are all the same in 32 bits, or no numbers.
const TEMPERATURES: RangeInclusive<f64> = 1e-6..=1e6;

impl Checks<'_> {
    pub(super) fn model(&mut self, known_models: &[&str]) -> ModelPlan {
        let raw = &self.document.raw.model;
        ModelPlan {
            name: self.model_name(raw.name.as_deref(), known_models),
            img_size: self.size("model.img_size", raw.img_size),
            patch_size: self.size("model.patch_size", raw.patch_size),
            patch_stride: self.size("model.patch_stride", raw.patch_stride),
            window_size: self.size("model.window_size", raw.window_size),
            kv_stride: self.size("model.kv_stride", raw.kv_stride),
            embed_dim: self.sizes("model.embed_dim", raw.embed_dim.as_ref()),
            depth: self.sizes("model.depth", raw.depth.as_ref()),
            num_heads: self.sizes("model.num_heads", raw.num_heads.as_ref()),
            mlp_ratio: raw
                .mlp_ratio
                .map(|ratio| self.number("model.mlp_ratio", ratio, POSITIVE)),
            in_chans: self.size("model.in_chans", raw.in_chans),
            num_classes: self.size("model.num_classes", raw.num_classes),
            qkv_bias: raw.qkv_bias,
            drop_path: self.number("model.drop_path", raw.drop_path, 0.0..1.0),
            attn_drop: self.number("model.attn_drop", raw.attn_drop, 0.0..1.0),
            attention: self.attention(),
        }
    }

    fn model_name(&mut self, name: Option<&str>, known_models: &[&str]) -> String {
        let Some(name) = name else {
            let example = known_models.first().unwrap_or(&"deit_tiny_patch16_224");
            let help = format!("add `name = \"{example}\"` under `[model]`");
            self.missing("model.name", help);
            return String::new();
        };
        if !known_models.contains(&name) {
            let place = self.document.place("model.name");
            let problem = Problem::new(place, format!("unknown model `{name}`"));
            self.problems
                .push(match closest(name, known_models.iter().copied()) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("`kvt models list` has those there are"),
                });
        }
        name.to_owned()
    }

    fn attention(&mut self) -> AttentionPlan {
        let raw = &self.document.raw.model.attention;
        // Checked for dense attention too: a mistake must not wait for the day it is switched on.
        let neighbors = self.neighbors(&raw.neighbors);
        // An explicit `kind = "dense"` may switch off the neighbours of a base; silence may not.
        if self.document.set_place("model.attention.kind").is_none() {
            for key in ["neighbors", "selection", "implementation"] {
                let place = self.document.set_place(&format!("model.attention.{key}"));
                if let Some(place) = place {
                    let message = format!("`{key}` is set, but nothing says which attention");
                    let help = "add `kind = \"knn\"` under `[model.attention]`, or \"dense\"";
                    self.problems.push(Problem::new(place, message).help(help));
                }
            }
        }
        AttentionPlan {
            kind: match raw.kind {
                RawAttentionKind::Dense => AttentionKind::Dense,
                RawAttentionKind::Knn => AttentionKind::Knn {
                    neighbors,
                    selection: raw.selection,
                    implementation: raw.implementation,
                },
            },
            temperature: self.number("model.attention.temperature", raw.temperature, TEMPERATURES),
        }
    }

    fn neighbors(&mut self, raw: &RawNeighbors) -> Vec<NeighborsSetting> {
        const KEY: &str = "model.attention.neighbors";
        let entries = match raw {
            RawNeighbors::One(entry) => std::slice::from_ref(entry),
            RawNeighbors::PerStage(entries) => entries.as_slice(),
        };
        if entries.is_empty() {
            self.refuse(KEY, "[]", "one entry, or one per stage of the model");
        }
        let mut settings = Vec::with_capacity(entries.len());
        for entry in entries {
            match *entry {
                RawNeighbor::Count(count) => match usize::try_from(count) {
                    Ok(count) if count > 0 => settings.push(NeighborsSetting::Count(count)),
                    _ => self.refuse(KEY, count, "a count of at least 1"),
                },
                RawNeighbor::Fraction(share) => {
                    if !SHARE.contains(&share) {
                        let expected = "a share of the keys in (0, 1], or an integer for a count";
                        self.refuse(KEY, format_args!("{share:?}"), expected);
                    }
                    settings.push(NeighborsSetting::Fraction(share));
                }
            }
        }
        settings
    }
}
