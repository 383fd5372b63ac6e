//! timm's hub: addresses, and the order in which weights are looked for.

use std::path::PathBuf;
use std::time::Duration;

use super::cache::Cache;
use super::{FetchError, Published, download};

/// The files of each timm repository: the weights, and their configuration, which says for example how images are normalised.
pub(super) const FILE: &str = "model.safetensors";
pub(super) const CONFIG: &str = "config.json";
/// How long a server may be silent, before its answer and within it. The time of a whole file is not limited.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The hub's own address.
const HUB: &str = "https://huggingface.co";

/// Receives the bytes done and the total.
pub(super) type Told<'a> = &'a mut dyn FnMut(u64, u64);

/// Where weights come from, and where they are kept.
#[derive(Clone, Debug)]
pub(super) struct Hub {
    /// The address of the hub or of a mirror, without a final slash.
    pub(super) endpoint: String,
    /// The folder of the cache; `None` is the one that all programs for the hub share.
    pub(super) cache: Option<PathBuf>,
    /// How long a server may send nothing in the middle of a file.
    pub(super) silence: Duration,
}

impl Hub {
    /// The settings of the environment: `HF_ENDPOINT` and `HF_HOME`.
    pub(super) fn from_env() -> Self {
        let named = std::env::var("HF_ENDPOINT").ok();
        let named = named.map(|named| named.trim().trim_end_matches('/').to_owned());
        Self {
            endpoint: named
                .filter(|named| !named.is_empty())
                .unwrap_or_else(|| HUB.to_owned()),
            cache: None,
            silence: PATIENCE,
        }
    }

    /// The path of the weights: in the cache, where a user has put them, or downloaded.
    ///
    /// # Errors
    /// If the hub cannot be reached, has no such weights, or sends a file without the promised checksum.
    pub(super) fn fetch(&self, weights: Published, told: Told<'_>) -> Result<PathBuf, FetchError> {
        let repository = weights.repository();
        let cache = Cache::of(self.cache.clone(), &repository)?;
        let url = |file: &str| format!("{}/{repository}/resolve/main/{file}", self.endpoint);
        if let Some((commit, path)) = cache.kept(FILE)? {
            // An earlier download may lack the configuration. Weights are usable without it, so an error does not matter here.
            let _ = download::describe(&url(CONFIG), &cache, commit);
            return Ok(path);
        }
        // Where a user can put the file, which belongs to no commit.
        let placed = cache.0.join(FILE);
        if placed.is_file() {
            return Ok(placed);
        }
        download::into_cache(&url, &cache, self.silence, told)
            .map_err(|error| error.or_placed(&placed))
    }
}
