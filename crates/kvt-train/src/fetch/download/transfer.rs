//! Downloads one file, and resumes an interrupted download of it.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use fs_err as fs;
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use super::part::Part;
use crate::fetch::FetchError;
use crate::fetch::hub::{PATIENCE, Told};
use crate::fetch::sum::{Sum, of_file};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// How often a server may redirect a request for the bytes of a file.
pub(super) const FOLLOWED: u32 = 10;

/// Requests a file, following up to `redirects` redirects. It sends no token: published weights need none, and a mirror should not
/// see one.
pub(super) fn request(
    url: &str,
    range: Option<String>,
    redirects: u32,
) -> Result<Response<Body>, FetchError> {
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

/// Downloads a file, which gets its name after its sum is verified. Bytes that have arrived are kept if the download fails.
pub(in crate::fetch) fn file(
    url: &str,
    sum: Sum,
    to: &Path,
    silence: Duration,
    told: Told<'_>,
) -> Result<(), FetchError> {
    let mut part = Part::open(to)?;
    // Another process has completed it while this one waited.
    if to.is_file() && of_file(to)? == sum {
        let _ = part.remove();
        return Ok(());
    }
    let has_begun = part.len()? > 0;
    let mut found = receive(url, &mut part, silence, told);
    if has_begun && found.as_ref().is_ok_and(|found| *found != sum) {
        // The earlier part may be of another file, or the server did not continue where it ended.
        part.file.set_len(0)?;
        found = receive(url, &mut part, silence, told);
    }
    let found = match found {
        // There is nothing to resume from.
        Err(error) if part.len()? == 0 => {
            let _ = part.remove();
            return Err(error);
        }
        found => found?,
    };
    if found == sum {
        return Ok(fs::rename(&part.path, to)?);
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
    told: Told<'_>,
) -> Result<Sum, FetchError> {
    let mut done = part.len()?;
    let range = (done > 0).then(|| format!("bytes={done}-"));
    let mut answer = request(url, range, FOLLOWED)?;
    // The server has nothing more to send, or cannot begin within a file.
    if done > 0 && answer.status() != StatusCode::PARTIAL_CONTENT {
        part.file.set_len(0)?;
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

/// Reads a body to its end in a thread, so that the caller can limit its wait for each chunk: the client limits only the time of a whole
/// answer. If the server stays silent, the thread ends with the process.
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
            // Sending fails when the caller has stopped waiting.
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

pub(super) fn interrupted(url: &str, reason: &dyn ToString) -> FetchError {
    FetchError::Interrupted {
        url: url.to_owned(),
        reason: reason.to_string(),
    }
}
