//! A server of the tests' own, on this machine.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use fs_err as fs;

use crate::fetch::sum::of_file;

/// The files of a server, and how it behaves.
#[derive(Clone)]
pub(in crate::fetch) struct Site {
    pub(in crate::fetch) content: Vec<u8>,
    pub(in crate::fetch) etag: String,
    /// What it gives instead with the bytes of the file.
    pub(in crate::fetch) later_etag: Option<&'static str>,
    /// Where it sends a first request on to, with the checksum in its answer, as the hub does.
    pub(in crate::fetch) sends_to: Option<String>,
    /// Bytes of a long answer after which the connection breaks, once.
    pub(in crate::fetch) breaks_after: Option<usize>,
    /// Whether it stays connected then, without a word.
    pub(in crate::fetch) falls_silent: bool,
    pub(in crate::fetch) status: u16,
    /// Its `config.json`, if it has one.
    pub(in crate::fetch) config: Option<&'static str>,
}

impl Site {
    /// The same site, with `config.json` as its file.
    fn config(&self) -> Self {
        Self {
            content: self.config.unwrap_or_default().into(),
            // Small files are named by another checksum, of 40 digits.
            etag: "da39a3ee5e6b4b0d3255bfef95601890afd80709".to_owned(),
            later_etag: None,
            sends_to: None,
            breaks_after: None,
            falls_silent: false,
            status: if self.config.is_some() { 200 } else { 404 },
            config: None,
        }
    }
}

/// A server for the files of a repository, as on the hub, and the requests that it got: their path, and where their range begins.
pub(in crate::fetch) struct Server {
    pub(in crate::fetch) address: String,
    pub(in crate::fetch) site: Arc<Mutex<Site>>,
    pub(in crate::fetch) requests: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Server {
    pub(in crate::fetch) fn new(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            site: Arc::new(Mutex::new(site)),
            requests: Arc::default(),
        };
        let (site, requests) = (Arc::clone(&server.site), Arc::clone(&server.requests));
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (path, range) = read_request(&stream);
                requests.lock().unwrap().push((path.clone(), range.0));
                // An error here means that the client has gone.
                let _ = if path.ends_with("/config.json") {
                    answer(stream, &mut site.lock().unwrap().config(), range)
                } else {
                    answer(stream, &mut site.lock().unwrap(), range)
                };
            }
        });
        server
    }

    /// How many requests there were.
    pub(in crate::fetch) fn starts(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// The path, and the first and last byte of the range.
fn read_request(stream: &TcpStream) -> (String, (usize, Option<usize>)) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let path = first.split_whitespace().nth(1).unwrap_or_default();
    let mut range = (0, None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let line = line.to_ascii_lowercase();
        if let Some((from, to)) = line
            .strip_prefix("range: bytes=")
            .and_then(|range| range.split_once('-'))
        {
            range = (from.parse().unwrap(), to.parse().ok());
        }
    }
    (path.to_owned(), range)
}

fn answer(
    mut stream: TcpStream,
    site: &mut Site,
    (from, to): (usize, Option<usize>),
) -> io::Result<()> {
    if site.status != 200 {
        let status = site.status;
        return write!(
            stream,
            "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    if let Some(place) = site.sends_to.take() {
        let etag = &site.etag;
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\nX-Linked-Etag: \"{etag}\"\r\n\
             X-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n"
        );
    }
    let etag = site
        .later_etag
        .filter(|_| to.is_none())
        .unwrap_or(&site.etag);
    let all = site.content.len();
    if from > 0 && from >= all {
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\n{end}");
    }
    let end = to.map_or(all, |to| (to + 1).min(all));
    let part = &site.content[from.min(end)..end];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{all}\r\n\
         ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        part.len(),
        end.saturating_sub(1),
        etag
    )?;
    match site.breaks_after.filter(|_| part.len() > 1) {
        Some(count) => {
            site.breaks_after = None;
            stream.write_all(&part[..count])?;
            if site.falls_silent {
                // For as long as the tests last.
                std::mem::forget(stream);
            }
            Ok(())
        }
        None => stream.write_all(part),
    }
}

pub(in crate::fetch) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The SHA-256 of `abc` (FIPS 180-2, appendix B.1).
pub(in crate::fetch) const ABC: &str =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

pub(in crate::fetch) fn site(content: &[u8]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, content).unwrap();
    Site {
        content: content.to_vec(),
        etag: of_file(&path).unwrap().to_string(),
        later_etag: None,
        sends_to: None,
        breaks_after: None,
        falls_silent: false,
        status: 200,
        config: None,
    }
}
