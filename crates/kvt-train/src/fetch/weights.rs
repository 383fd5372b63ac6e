//! Weights by name.

use std::path::{Path, PathBuf};

use kvt_data::text::quoted;
use kvt_models::weights::is_of_weights;
use kvt_models::{lacking, similar};

use super::FetchError;
use super::hub::Hub;
use super::listen::telling;

/// The weights of timm's hub for models that kvt has: a line for each model, by timm's name, with the tags of its weights, timm's default
/// first. Written by `scripts/weights/published.py`, which says from which version of timm.
const PUBLISHED: &str = include_str!("published.txt");

/// Weights of a model on timm's hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The model, a name of `kvt models list`.
    pub model: &'static str,
    /// timm's abbreviation of what they were trained on, and by whom.
    pub tag: &'static str,
}

impl Published {
    /// All weights, model by model, timm's default first.
    pub fn all() -> impl Iterator<Item = Self> {
        PUBLISHED.lines().flat_map(|line| {
            let mut words = line.split(' ');
            let model = words.next().unwrap_or_default();
            words.map(move |tag| Self { model, tag })
        })
    }

    /// Finds weights by name: `MODEL.TAG`, also with the prefix `timm/`, or only the model for timm's default.
    ///
    /// # Errors
    /// [`FetchError::Unknown`] with similar names.
    pub fn find(name: &str) -> Result<Self, FetchError> {
        let wanted = name.strip_prefix("timm/").unwrap_or(name);
        let mut all = Self::all();
        let found = all.find(|one| one.model == wanted || one.name() == wanted);
        found.ok_or_else(|| FetchError::Unknown {
            what: format!("published weights `{name}`"),
            instead: instead(wanted),
        })
    }

    /// The weights that a path names, if there is no such file.
    pub fn named(path: &Path) -> Option<Self> {
        if path.exists() {
            return None;
        }
        Self::find(path.to_str()?).ok()
    }

    /// `MODEL.TAG`.
    pub fn name(self) -> String {
        format!("{}.{}", self.model, self.tag)
    }

    /// Their repository on the hub. CLIP's are the same for both activations: timm has them under the name without one.
    pub(super) fn repository(self) -> String {
        format!("timm/{}", self.name().replace("_quickgelu", ""))
    }

    /// Their licence, by the `license` of timm's configurations.
    pub fn licence(self) -> &'static str {
        match self.tag {
            "mae" | "metaclip_400m" | "metaclip_2pt5b" => "CC-BY-NC-4.0",
            "eupe_lvd1689m" => "FAIR-Noncommercial-Research",
            "dfn2b" | "dfn2b_s39b" => "Apple-ASCL",
            "apple_mclip2_dfndr2b" => "Apple-AMLR",
            "laion400m_e32" => "MIT",
            // timm's configurations name none.
            "bamboo" => "see their page",
            _ if self.model.contains("_dinov3") => "DINOv3",
            _ if self.model.starts_with("swin_") => "MIT",
            _ => "Apache-2.0",
        }
    }

    /// The path of the file: in the cache, where a user has put it, or downloaded.
    ///
    /// # Errors
    /// If it is not on this machine and cannot be downloaded. The message says where a user can put the file.
    pub fn file(self) -> Result<PathBuf, FetchError> {
        let what = format!("`{}`, licence {}", self.name(), self.licence());
        Hub::from_env().fetch(self, &mut telling(&what))
    }
}

/// Why there are no weights of a name, or names that are spelt like it, as the end of a clause; empty without any.
pub(crate) fn instead(wanted: &str) -> String {
    let wanted = wanted.strip_prefix("timm/").unwrap_or(wanted);
    if let Some(reason) = lacking(wanted) {
        return format!("; {reason}");
    }
    match &*similar(wanted, Published::all().map(Published::name)) {
        [] => String::new(),
        near => format!("; similar names: {}", quoted(near)),
    }
}

/// The path of what a user gives as weights: the given path, or the file of published weights if it is the name of some. A given
/// path need not exist.
///
/// # Errors
/// As [`Published::file`], or if a single word is neither a path nor a name.
pub fn locate(given: &Path) -> Result<PathBuf, FetchError> {
    if let Some(weights) = Published::named(given) {
        return weights.file();
    }
    let is_path = given.exists() || is_of_weights(given) || given.components().count() != 1;
    if is_path {
        return Ok(given.to_owned());
    }
    let given = given.to_string_lossy();
    Err(FetchError::Unknown {
        what: format!("file `{given}`, no folder, and no published weights of this name"),
        instead: instead(&given),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_model_stands_for_timms_default() {
        let found = |name: &str| Published::find(name).unwrap().repository();
        assert_eq!(
            found("deit_tiny_patch16_224"),
            "timm/deit_tiny_patch16_224.fb_in1k"
        );
        let other = "timm/swin_tiny_patch4_window7_224.ms_in22k";
        assert_eq!(found(other), other);
        assert_eq!(
            found("vit_small_patch16_224.dino"),
            "timm/vit_small_patch16_224.dino"
        );
        assert_eq!(
            found("vit_base_patch16_clip_quickgelu_224.openai"),
            "timm/vit_base_patch16_clip_224.openai"
        );
    }

    #[test]
    fn another_name_is_refused_with_what_is_near() {
        let error = |name: &str| Published::find(name).unwrap_err().to_string();
        let text = error("deit_tiny_patch16_244");
        assert!(
            text.contains("; similar names: `deit_tiny_patch16_224.fb_in1k`"),
            "{text}"
        );
        assert_eq!(
            error("timm/beit_base_patch16_224.in22k_ft_in22k"),
            "no published weights `timm/beit_base_patch16_224.in22k_ft_in22k`; kvt lacks BEiT, for its bias for relative \
             positions: `kvt models list --weights` shows all names"
        );
        assert_eq!(
            error("zzz"),
            "no published weights `zzz`: `kvt models list --weights` shows all names"
        );
    }

    /// Each name occurs once, and belongs to a model that kvt has.
    #[test]
    fn all_names_are_of_models() {
        let mut known: BTreeSet<String> = kvt_models::names().into_iter().collect();
        known.extend(kvt_models::aliases().into_iter().map(|(alias, _)| alias));
        let mut seen = BTreeSet::new();
        for one in Published::all() {
            assert!(known.contains(one.model), "{}", one.model);
            assert!(seen.insert(one.name()), "{} twice", one.name());
        }
        assert!(seen.len() > 90);
    }
}
