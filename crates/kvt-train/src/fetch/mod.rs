//! Weights that others have published: their names and, with the feature `fetch`, their download.

#[cfg(feature = "fetch")]
mod download;
mod published;

#[cfg(feature = "fetch")]
pub use self::download::Hub;
use self::published::PUBLISHED;
use kvt_data::text::quoted;

/// Weights of a model on timm's hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The model, a name of `kvt models list`.
    pub model: &'static str,
    /// What the weights were trained on, and by whom, as timm abbreviates it.
    pub tag: &'static str,
}

impl Published {
    /// All weights, model by model, timm's default first.
    pub fn all() -> impl Iterator<Item = Self> {
        PUBLISHED
            .iter()
            .flat_map(|&(model, tags)| tags.iter().map(move |&tag| Self { model, tag }))
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
            name: name.to_owned(),
            near: kvt_models::similar(wanted, Self::all().map(Self::name)),
        })
    }

    /// `MODEL.TAG`.
    pub fn name(self) -> String {
        format!("{}.{}", self.model, self.tag)
    }

    /// Their repository on the hub.
    pub fn repository(self) -> String {
        format!("timm/{}", self.name())
    }
}

/// Why weights could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name is unknown.
    #[error(
        "no published weights `{name}`{}: `kvt models list --weights` shows all names",
        instead(near)
    )]
    Unknown {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// The hub does not have the file.
    #[error(
        "the hub has no `{url}` (status {status}): it may have been renamed, or the mirror of `HF_ENDPOINT` lacks it"
    )]
    NotThere {
        /// The address of the file.
        url: String,
        /// The status of the server's answer.
        status: u16,
    },
    /// The download was not completed.
    #[error(
        "could not download `{url}`: {reason}; any partial file is kept, and the same command resumes it"
    )]
    Interrupted {
        /// The address of the file.
        url: String,
        /// The message of the client.
        reason: String,
    },
    /// The server does not say which file it has.
    #[error(
        "the server of `{url}` gives no SHA-256 of the file, or no commit (`{given}`): take another mirror in `HF_ENDPOINT`"
    )]
    NoChecksum {
        /// The file.
        url: String,
        /// What it gives instead.
        given: String,
    },
    /// The file does not have the promised checksum.
    #[error(
        "the SHA-256 of `{url}` is {found}, but the server promised {expected}: the file was deleted, try again or take another \
         mirror in `HF_ENDPOINT`"
    )]
    Checksum {
        /// The file.
        url: String,
        /// The checksum that the server gave.
        expected: String,
        /// The checksum of the downloaded file.
        found: String,
    },
    /// The cache cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

fn instead(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; similar names: {}", quoted(near))
    }
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
