//! Downloads from timm's hub or a mirror of it, into the cache that all programs for that hub share.
//!
//! `hf-hub` downloads, and resumes interrupted downloads. It checks neither size nor content, so this module does, by the SHA-256
//! that names the file on the hub.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};
use sha2::{Digest as _, Sha256};

use super::{FetchError, Published};

/// The files of each timm repository: the weights, and their configuration, such as how images are normalised.
const FILE: &str = "model.safetensors";
const CONFIG: &str = "config.json";
/// Bytes that are hashed at once.
const CHUNK: usize = 1 << 20;

/// Where weights come from, and where they are kept.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// The address of a mirror; `None` is the hub itself.
    pub endpoint: Option<String>,
    /// The cache; `None` is the one that all programs for the hub share.
    pub cache: Option<PathBuf>,
}

impl Hub {
    /// The settings of the environment: `HF_ENDPOINT` and `HF_HOME`.
    pub fn from_env() -> Self {
        let endpoint = std::env::var("HF_ENDPOINT").ok();
        Self {
            endpoint: endpoint.filter(|endpoint| !endpoint.trim().is_empty()),
            cache: None,
        }
    }

    /// The file of weights, from the cache or downloaded; `told` receives the bytes done and the total.
    ///
    /// # Errors
    /// If the hub cannot be reached, has no such weights, or sends a file without the promised checksum.
    pub fn fetch(
        &self,
        weights: Published,
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<PathBuf, FetchError> {
        let cache = match &self.cache {
            Some(folder) => Cache::new(folder.clone()),
            None => Cache::from_env(),
        };
        let repo = Repo::new(weights.repository(), RepoType::Model);
        let api = self.api(cache.clone());
        let api = api.map_err(|error| interrupted(&weights.repository(), &error))?;
        let (from, kept) = (api.repo(repo.clone()), cache.repo(repo));
        let url = from.url(FILE);
        if let Some(path) = kept.get(FILE)
            && let Some(promised) = name_of(&path)?
            && check(&path, &promised, &url).is_ok()
        {
            // Fetch a configuration that an earlier download lacked; without a network the weights are usable without it.
            if kept.get(CONFIG).is_none() {
                let _ = describe(&api, &from);
            }
            return Ok(path);
        }
        let promised = named(&api, &url)?;
        let size = promised.size() as u64;
        let promised = promised.etag().to_owned();
        if !is_sha256(&promised) {
            return Err(FetchError::NoChecksum {
                url,
                etag: promised,
            });
        }
        // The partial file is already complete, or another file: `hf-hub` would request bytes beyond its end.
        let part = kept.blob_path(&promised).with_extension("part");
        if fs::metadata(&part).is_ok_and(|part| part.len() >= size) {
            fs::remove_file(&part)?;
        }
        let progress = Told {
            told,
            done: 0,
            total: 0,
        };
        let path = from.download_with_progress(FILE, progress);
        let path = path.map_err(|error| refused(&url, &error))?;
        check(&path, &promised, &url)?;
        match describe(&api, &from) {
            // A mirror may lack the configuration; the weights are usable without it.
            Ok(()) | Err(FetchError::NotThere { .. }) => Ok(path),
            Err(error) => Err(error),
        }
    }

    fn api(&self, cache: Cache) -> Result<Api, ApiError> {
        // Published weights need no token, and a mirror should not see one. No retries: on a retry `hf-hub` may append from the start.
        let builder = ApiBuilder::from_cache(cache)
            .with_token(None)
            .with_retries(0)
            .with_user_agent("kvt", env!("CARGO_PKG_VERSION"));
        match &self.endpoint {
            Some(endpoint) => {
                builder.with_endpoint(endpoint.trim().trim_end_matches('/').to_owned())
            }
            None => builder,
        }
        .build()
    }
}

/// The server's metadata of a file. `hf-hub` makes paths of the names in it, so names with anything but hexadecimal digits are refused.
fn named(api: &Api, url: &str) -> Result<Metadata, FetchError> {
    let named = api.metadata(url).map_err(|error| refused(url, &error))?;
    for name in [named.etag(), named.commit_hash()] {
        if name.is_empty() || !name.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(FetchError::NoChecksum {
                url: url.to_owned(),
                etag: name.to_owned(),
            });
        }
    }
    Ok(named)
}

/// Downloads timm's configuration of the weights into the cache. It has no SHA-256 to check.
fn describe(api: &Api, from: &ApiRepo) -> Result<(), FetchError> {
    let url = from.url(CONFIG);
    named(api, &url)?;
    let done = from.download_with_progress(CONFIG, ());
    done.map(drop).map_err(|error| refused(&url, &error))
}

/// Passes on the progress of a download.
struct Told<'a> {
    told: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

impl Progress for Told<'_> {
    fn init(&mut self, size: usize, _: &str) {
        (self.done, self.total) = (0, size as u64);
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        (self.told)(self.done, self.total);
    }

    fn finish(&mut self) {}
}

/// The name of the file that a link in the cache points to, which is its SHA-256; `None` if it is not.
fn name_of(path: &Path) -> io::Result<Option<String>> {
    let file = fs::canonicalize(path)?;
    let name = file.file_name().and_then(|name| name.to_str());
    Ok(name.filter(|name| is_sha256(name)).map(str::to_owned))
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Deletes a file of the cache that does not have the promised checksum.
fn check(path: &Path, promised: &str, url: &str) -> Result<(), FetchError> {
    let file = fs::canonicalize(path)?;
    let found = sum(&file)?;
    if found.eq_ignore_ascii_case(promised) {
        return Ok(());
    }
    fs::remove_file(path)?;
    for left in [file.clone(), file.with_extension("lock")] {
        match fs::remove_file(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Err(FetchError::Checksum {
        url: url.to_owned(),
        expected: promised.to_owned(),
        found,
    })
}

/// The SHA-256 of a file, in hexadecimal digits.
fn sum(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            count => digest.update(chunk.get(..count).unwrap_or_default()),
        }
    }
    let digits = digest.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn refused(url: &str, error: &ApiError) -> FetchError {
    match error {
        ApiError::RequestError(inner) => match **inner {
            // The hub answers 401 for a missing repository, unless the client is logged in.
            ureq::Error::StatusCode(status @ (401 | 403 | 404 | 410)) => FetchError::NotThere {
                url: url.to_owned(),
                status,
            },
            _ => interrupted(url, error),
        },
        _ => interrupted(url, error),
    }
}

fn interrupted(url: &str, error: &ApiError) -> FetchError {
    FetchError::Interrupted {
        url: url.to_owned(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
