//! Downloads from timm's hub or a mirror of it, into the cache that all programs for that hub share.
//!
//! A server is not trusted. Its first answer names the file, by the SHA-256 of its content, and the commit. Both are numbers,
//! which are read as such and make the names in the cache. Every later answer only brings bytes, and a file gets its name once its
//! sum has been checked.

mod cache;

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use fs_err as fs;
use sha2::{Digest as _, Sha256};
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::{Agent, Body};

use self::cache::{Cache, Commit, Part, Sum};
use super::{FetchError, Published};

/// The files of each timm repository: the weights, and their configuration, such as how images are normalised.
const FILE: &str = "model.safetensors";
const CONFIG: &str = "config.json";
/// Most bytes of a configuration; timm's have less than 1,000.
const LARGEST_CONFIG: u64 = 1 << 20;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// How often the hub may send on to another name of a repository.
const REDIRECTS: usize = 5;
/// How often it may for the bytes of a file.
const FOLLOWED: u32 = 10;
/// How long a server may take to answer, and to send more. The whole file may take any time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The hub's own address.
const HUB: &str = "https://huggingface.co";

/// Where weights come from, and where they are kept.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// The address of a mirror; `None` is the hub itself.
    pub endpoint: Option<String>,
    /// The cache; `None` is the one that all programs for the hub share.
    pub cache: Option<PathBuf>,
    /// How long a server may send nothing in the middle of a file; `None` is a minute.
    silence: Option<Duration>,
}

/// What the server promises of a file.
struct Promise {
    sum: Sum,
    commit: Commit,
}

impl Hub {
    /// The settings of the environment: `HF_ENDPOINT` and `HF_HOME`.
    pub fn from_env() -> Self {
        let endpoint = std::env::var("HF_ENDPOINT").ok();
        Self {
            endpoint: endpoint.filter(|endpoint| !endpoint.trim().is_empty()),
            ..Self::default()
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
        let repository = weights.repository();
        let cache = Cache::of(self.cache.clone(), &repository)?;
        let endpoint = self
            .endpoint
            .as_deref()
            .unwrap_or(HUB)
            .trim()
            .trim_end_matches('/');
        let url = |file: &str| format!("{endpoint}/{repository}/resolve/main/{file}");
        if let Some((commit, path)) = cache.kept(FILE)? {
            // Fetch a configuration that an earlier download lacked; without a network the weights are usable without it.
            let _ = describe(&cache, commit, &url(CONFIG));
            return Ok(path);
        }
        let Promise { sum, commit } = promise(&url(FILE))?;
        if !cache.has(sum)? {
            let silence = self.silence.unwrap_or(PATIENCE);
            download(&url(FILE), sum, &cache, silence, told)?;
        }
        let path = cache.link(commit, FILE, sum)?;
        match describe(&cache, commit, &url(CONFIG)) {
            // A mirror may lack the configuration; the weights are usable without it.
            Ok(()) | Err(FetchError::NotThere { .. }) => Ok(path),
            Err(error) => Err(error),
        }
    }
}

/// Requests a file. `redirects` is how often it may be sent on. No token is sent: published weights need none, and a mirror should
/// not see one.
fn request(url: &str, range: Option<String>, redirects: u32) -> Result<Response<Body>, FetchError> {
    let agent: Agent = Agent::config_builder()
        .user_agent(concat!("kvt/", env!("CARGO_PKG_VERSION")))
        // The bytes of the file are counted and summed.
        .accept_encoding("identity")
        .http_status_as_error(false)
        .max_redirects(redirects)
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .build()
        .into();
    let mut request = agent.get(url);
    if let Some(range) = range {
        request = request.header(header::RANGE, range);
    }
    let answer = request.call().map_err(|error| interrupted(url, &error))?;
    let status = answer.status();
    match status.as_u16() {
        // The hub answers 401 for a missing repository, unless the client is logged in.
        status @ (401 | 403 | 404 | 410) => Err(FetchError::NotThere {
            url: url.to_owned(),
            status,
        }),
        200..=399 | 416 => Ok(answer),
        _ => Err(interrupted(url, &format!("the server answers {status}"))),
    }
}

/// What the server says of a file: the hub itself in the answer that leads to the file, not the server that has the file.
fn promise(url: &str) -> Result<Promise, FetchError> {
    let mut at = url.to_owned();
    for _ in 0..REDIRECTS {
        let answer = request(&at, Some("bytes=0-0".to_owned()), 0)?;
        let headers = answer.headers();
        // Another name of the repository, on the same server.
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
        return Ok(Promise {
            sum: Sum::parse(digits).ok_or_else(|| no_checksum(etag))?,
            commit: Commit::parse(commit).ok_or_else(|| no_checksum(commit))?,
        });
    }
    Err(interrupted(url, &"the server sends on again and again"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Downloads a file into the cache, from where an earlier download of it was interrupted.
fn download(
    url: &str,
    sum: Sum,
    cache: &Cache,
    silence: Duration,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), FetchError> {
    let mut part = cache.part(sum)?;
    // Another process has completed it while this one waited.
    if cache.has(sum)? {
        return Ok(());
    }
    let has_begun = part.len()? > 0;
    let mut found = receive(url, &mut part, silence, told)?;
    if found != sum && has_begun {
        // What was there may be of another file, or the server has gone on elsewhere.
        part.clear()?;
        found = receive(url, &mut part, silence, told)?;
    }
    if found == sum {
        return Ok(part.keep()?);
    }
    part.remove()?;
    Err(FetchError::Checksum {
        url: url.to_owned(),
        expected: sum.to_string(),
        found: found.to_string(),
    })
}

/// Completes the part of a file, and returns its sum.
fn receive(
    url: &str,
    part: &mut Part,
    silence: Duration,
    told: &mut dyn FnMut(u64, u64),
) -> Result<Sum, FetchError> {
    let mut done = part.len()?;
    let mut answer = match done {
        0 => request(url, None, FOLLOWED)?,
        done => request(url, Some(format!("bytes={done}-")), FOLLOWED)?,
    };
    // Nothing is left to send, or the server does not continue within a file.
    if done > 0 && answer.status() != StatusCode::PARTIAL_CONTENT {
        part.clear()?;
        done = 0;
        if answer.status() != StatusCode::OK {
            answer = request(url, None, FOLLOWED)?;
        }
    }
    if !answer.status().is_success() {
        let status = answer.status();
        return Err(interrupted(url, &format!("the server answers {status}")));
    }
    let total = answer.body().content_length().map(|left| done + left);
    let chunks = chunks(answer.into_body().into_reader())?;
    loop {
        told(done, total.unwrap_or(done));
        match chunks.recv_timeout(silence) {
            Ok(chunk) => {
                let chunk = chunk.map_err(|error| interrupted(url, &error))?;
                part.file.write_all(&chunk)?;
                done += chunk.len() as u64;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = silence.as_secs_f64();
                let reason = format!("the server has sent nothing for {seconds} s");
                return Err(interrupted(url, &reason));
            }
        }
    }
    part.file.sync_all()?;
    Ok(of_file(&part.path)?)
}

/// Reads a body to its end in a thread, so that one can stop waiting for it: the client limits only the time of a whole answer. A
/// thread whose server stays silent ends with the process.
fn chunks(
    mut body: impl io::Read + Send + 'static,
) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match body.read(&mut chunk) {
                Ok(0) => break,
                read => read.map(|count| chunk.get(..count).unwrap_or_default().to_vec()),
            };
            let is_last = read.is_err();
            // An error is that nobody waits any more.
            if sender.send(read).is_err() || is_last {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("download".to_owned())
        .spawn(read)?;
    Ok(receiver)
}

/// Downloads timm's configuration of the weights into the cache. It has no SHA-256 to check.
fn describe(cache: &Cache, commit: Commit, url: &str) -> Result<(), FetchError> {
    if cache.holds(commit, CONFIG) {
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
    Ok(cache.write(commit, CONFIG, &bytes)?)
}

/// The SHA-256 of a file.
fn of_file(path: &Path) -> io::Result<Sum> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            count => digest.update(chunk.get(..count).unwrap_or_default()),
        }
    }
    Ok(Sum::new(digest.finalize().into()))
}

fn interrupted(url: &str, reason: &dyn ToString) -> FetchError {
    FetchError::Interrupted {
        url: url.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
