//! Downloads from timm's hub or a mirror of it, into the cache that all programs for that hub share.
//!
//! A server is not trusted. Its first answer promises a file by its SHA-256, and names the commit. Both are parsed as numbers, so that the
//! names in the cache made of them are safe. Later answers only bring bytes, and a file gets its name after its sum is verified.

mod part;
mod store;
mod transfer;

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use kvt_data::fs::write_atomic;
use ureq::http::HeaderMap;

pub(super) use self::transfer::file;
use self::transfer::{FOLLOWED, interrupted, request};
use super::FetchError;
use super::cache::Cache;
use super::hub::{CONFIG, FILE, Told};
use super::sum::{Commit, Sum};

/// Most bytes of a configuration; timm's have less than 1,000.
const LARGEST_CONFIG: u64 = 1 << 20;
/// How often the hub may redirect to another name of a repository.
const REDIRECTS: usize = 5;

/// Downloads weights into the cache, with their configuration; `url` gives the address of a file.
pub(super) fn into_cache(
    url: &dyn Fn(&str) -> String,
    cache: &Cache,
    silence: Duration,
    told: Told<'_>,
) -> Result<PathBuf, FetchError> {
    let (sum, commit) = promise(&url(FILE))?;
    if !cache.has(sum)? {
        file(&url(FILE), sum, &cache.blob(sum), silence, told)?;
    }
    let path = cache.link(commit, FILE, sum)?;
    match describe(&url(CONFIG), cache, commit) {
        // A mirror may lack the configuration; the weights are usable without it.
        Ok(()) | Err(FetchError::NotThere { .. }) => Ok(path),
        Err(error) => Err(error),
    }
}

/// What the hub promises of a file: in its own answer, which redirects to the file, not in that of the server that stores the file.
fn promise(url: &str) -> Result<(Sum, Commit), FetchError> {
    let mut at = url.to_owned();
    for _ in 0..REDIRECTS {
        let answer = request(&at, Some("bytes=0-0".to_owned()), 0)?;
        let headers = answer.headers();
        // The repository has another name on the same server.
        if let (true, Some(place)) = (
            answer.status().is_redirection(),
            text(headers, "location").filter(|place| place.starts_with('/')),
        ) {
            let host = at
                .match_indices('/')
                .nth(2)
                .map_or(at.len(), |(end, _)| end);
            at = at[..host].to_owned() + place;
            continue;
        }
        let etag = text(headers, "x-linked-etag")
            .or_else(|| text(headers, "etag"))
            .unwrap_or_default();
        let digits = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
        let commit = text(headers, "x-repo-commit").unwrap_or_default();
        let no_checksum = |given: &str| FetchError::NoChecksum {
            url: url.to_owned(),
            given: given.to_owned(),
        };
        let sum = Sum::parse(digits).ok_or_else(|| no_checksum(etag))?;
        let commit = Commit::parse(commit).ok_or_else(|| no_checksum(commit))?;
        return Ok((sum, commit));
    }
    Err(interrupted(url, &"the server redirects again and again"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Downloads timm's configuration of the weights into the cache. It has no SHA-256 to check.
pub(super) fn describe(url: &str, cache: &Cache, commit: Commit) -> Result<(), FetchError> {
    let path = cache.path(commit, CONFIG);
    if path.exists() {
        return Ok(());
    }
    let answer = request(url, None, FOLLOWED)?;
    let mut bytes = Vec::new();
    let mut body = answer.into_body().into_reader().take(LARGEST_CONFIG);
    let read = body.read_to_end(&mut bytes);
    read.map_err(|error| interrupted(url, &error))?;
    // A cut one, or the page of an error, is none.
    let parsed = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes);
    parsed.map_err(|error| interrupted(url, &format!("it is no description: {error}")))?;
    Ok(write_atomic(&path, |file| file.write_all(&bytes))?)
}

#[cfg(test)]
pub(super) mod server;
#[cfg(test)]
mod tests;
