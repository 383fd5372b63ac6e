#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

/// The files of a server, and how it behaves.
#[derive(Clone)]
struct Site {
    content: Vec<u8>,
    etag: String,
    /// What it gives instead with the bytes of the file.
    later_etag: Option<&'static str>,
    /// Where it sends a first request on to, with the checksum in its answer, as the hub does.
    sends_to: Option<String>,
    /// Bytes of a long answer after which the connection breaks, once.
    breaks_after: Option<usize>,
    /// Whether it stays connected then, without a word.
    falls_silent: bool,
    status: u16,
    /// Its `config.json`, if it has one.
    config: Option<&'static str>,
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
struct Server {
    address: String,
    site: Arc<Mutex<Site>>,
    requests: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Server {
    fn new(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: format!("http://{}/", listener.local_addr().unwrap()),
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

    /// A hub at this server, with a cache in this folder.
    fn hub(&self, cache: &Path) -> Hub {
        Hub {
            endpoint: Some(self.address.clone()),
            cache: Some(cache.to_owned()),
            silence: None,
        }
    }

    /// How many requests there were.
    fn starts(&self) -> usize {
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

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The SHA-256 of `abc` (FIPS 180-2, appendix B.1).
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn site(content: &[u8]) -> Site {
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

fn weights() -> Published {
    Published::find("deit_tiny_patch16_224").unwrap()
}

/// The names of all files and links below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(folder)
        .into_iter()
        .flatten()
        .filter(|entry| !entry.file_type().is_dir());
    let mut names: Vec<String> = all
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_sum_is_sha_256() {
    assert_eq!(site(b"abc").etag, ABC);
}

#[test]
fn a_whole_download_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..200_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let mut both = site(&content);
    both.config = Some("{}");
    let server = Server::new(both);
    let mut heard = Vec::new();
    let hub = server.hub(cache.path());
    let path = hub
        .fetch(weights(), &mut |done, total| heard.push((done, total)))
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(heard.last(), Some(&(200_000, 200_000)));
    assert!(heard.is_sorted());
    let expected = "/timm/deit_tiny_patch16_224.fb_in1k/resolve/main/model.safetensors";
    assert_eq!(server.requests.lock().unwrap()[0].0, expected);
    // The second time nothing is requested, unless the file was altered in the meantime.
    let asked = server.starts();
    assert_eq!(hub.fetch(weights(), &mut |_, _| {}).unwrap(), path);
    assert_eq!(server.starts(), asked);
    fs::write(&path, "altered").unwrap();
    assert_eq!(hub.fetch(weights(), &mut |_, _| {}).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), content);
    assert!(server.starts() > asked);
}

/// The partial file is as long as the whole one, or longer: there is no range to request.
#[test]
fn an_interrupted_download_that_lacks_nothing_begins_anew() {
    for size in [3, 5] {
        let cache = tempfile::tempdir().unwrap();
        let blobs = cache
            .path()
            .join("models--timm--deit_tiny_patch16_224.fb_in1k/blobs");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join(ABC).with_extension("part"), vec![b'x'; size]).unwrap();
        let server = Server::new(site(b"abc"));
        let path = server.hub(cache.path()).fetch(weights(), &mut |_, _| {});
        assert_eq!(fs::read(path.unwrap()).unwrap(), b"abc");
    }
}

/// A link of a commit to another file than that of its sum.
#[cfg(unix)]
#[test]
fn only_files_of_the_cache_are_taken_from_it() {
    let cache = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join(ABC);
    fs::write(&other, "mine").unwrap();
    let server = Server::new(site(b"abc"));
    let hub = server.hub(cache.path());
    let path = hub.fetch(weights(), &mut |_, _| {}).unwrap();
    fs::remove_file(&path).unwrap();
    fs::os::unix::fs::symlink(&other, &path).unwrap();
    let path = hub.fetch(weights(), &mut |_, _| {}).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"abc");
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
}

#[test]
fn a_name_that_is_a_path_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let mut other = site(b"abc");
    other.etag = "../../../abc".to_owned();
    let error = Server::new(other)
        .hub(cache.path())
        .fetch(weights(), &mut |_, _| {});
    assert!(matches!(error, Err(FetchError::NoChecksum { .. })));
}

/// A server that gives another name with the bytes than it promised before: a path, which may be that of any file of the user.
#[test]
fn only_the_first_answer_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim.txt");
    fs::write(&victim, "mine").unwrap();
    let mut evil = site(b"abc");
    evil.later_etag = Some(victim.to_str().unwrap().to_owned().leak());
    let cache = folder.path().join("cache");
    let path = Server::new(evil)
        .hub(&cache)
        .fetch(weights(), &mut |_, _| {});
    assert_eq!(fs::read(path.unwrap()).unwrap(), b"abc");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    // What other programs for the hub look for.
    let repository = cache.join("models--timm--deit_tiny_patch16_224.fb_in1k");
    let commit = fs::read_to_string(repository.join("refs/main")).unwrap();
    assert_eq!(commit, COMMIT);
    let snapshot = repository.join("snapshots").join(COMMIT).join(FILE);
    let blob = repository.join("blobs").join(ABC);
    assert_eq!(
        fs::canonicalize(snapshot).unwrap(),
        fs::canonicalize(blob).unwrap()
    );
}

/// The hub gives the checksum in the answer that leads to another server, and may first send on to another name.
#[test]
fn the_hub_names_what_another_server_has() {
    let other = Server::new(site(b"abc"));
    for place in [
        "/elsewhere/model.safetensors".to_owned(),
        other.address.clone() + "bytes",
    ] {
        let cache = tempfile::tempdir().unwrap();
        let is_own = place.starts_with('/');
        let mut hub = site(b"abc");
        hub.sends_to = Some(place);
        let hub = Server::new(hub);
        let path = hub.hub(cache.path()).fetch(weights(), &mut |_, _| {});
        assert_eq!(fs::read(path.unwrap()).unwrap(), b"abc");
        let requests = hub.requests.lock().unwrap();
        let elsewhere = requests
            .iter()
            .any(|(path, _)| path == "/elsewhere/model.safetensors");
        assert_eq!(elsewhere, is_own);
    }
    // The answer of the hub names the file: the other server was not asked for a name.
    assert_eq!(other.starts(), 0);
}

/// The path that is printed is for other folders, too.
#[test]
fn a_relative_cache_is_made_absolute() {
    let cache = Cache::of(Some("cache".into()), "timm/x").unwrap();
    let commit = Commit::parse(COMMIT).unwrap();
    let here = std::env::current_dir().unwrap();
    let file = here
        .join("cache/models--timm--x/snapshots")
        .join(COMMIT)
        .join(FILE);
    assert_eq!(cache.path(commit, FILE), file);
    let longer = COMMIT.to_owned() + "00";
    for wrong in [
        "",
        &longer,
        "0123",
        "../../../0123456789abcdef0123456789abcdef",
        &COMMIT.replace('f', "é"),
    ] {
        assert_eq!(Commit::parse(wrong), None, "{wrong}");
    }
}

/// If only the weights were downloaded, the next call fetches their configuration.
#[test]
fn what_timm_says_comes_later_too() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(site(b"abc"));
    let hub = server.hub(cache.path());
    let path = hub.fetch(weights(), &mut |_, _| {}).unwrap();
    assert!(!path.with_file_name("config.json").exists());
    server.site.lock().unwrap().config = Some("{}");
    let path = hub.fetch(weights(), &mut |_, _| {}).unwrap();
    assert!(path.with_file_name("config.json").exists());
}

/// `kvt finetune` looks for `config.json` beside the weights.
#[test]
fn what_timm_says_of_weights_comes_with_them() {
    let cache = tempfile::tempdir().unwrap();
    let mut both = site(b"abc");
    both.config = Some("{\"architecture\": \"deit_tiny_patch16_224\"}");
    let path = Server::new(both)
        .hub(cache.path())
        .fetch(weights(), &mut |_, _| {})
        .unwrap();
    let config = fs::read_to_string(path.with_file_name(CONFIG)).unwrap();
    assert!(config.contains("architecture"), "{config}");
}

#[test]
fn an_interrupted_download_goes_on_where_it_was() {
    let cache = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|i| (i * 17 % 241) as u8).collect();
    let mut broken = site(&content);
    broken.breaks_after = Some(100_000);
    let server = Server::new(broken);
    let hub = server.hub(cache.path());
    let error = hub.fetch(weights(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, FetchError::Interrupted { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("the same command resumes it"), "{text}");
    let part: Vec<String> = files(cache.path());
    assert!(part.iter().any(|name| name.ends_with(".part")), "{part:?}");

    let mut first = None;
    let path = hub
        .fetch(weights(), &mut |done, _| {
            first.get_or_insert(done);
        })
        .unwrap();
    assert_eq!(fs::read(path).unwrap(), content);
    // The part that had arrived is not requested again, and counts as done at once.
    assert_eq!(first, Some(100_000));
    let requests = server.requests.lock().unwrap();
    assert!(requests.iter().any(|(_, from)| *from == 100_000));
}

#[test]
fn a_server_that_falls_silent_is_left() {
    let cache = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|i| (i * 17 % 241) as u8).collect();
    let mut silent = site(&content);
    silent.breaks_after = Some(100_000);
    silent.falls_silent = true;
    let server = Server::new(silent);
    let impatient = Hub {
        silence: Some(Duration::from_millis(300)),
        ..server.hub(cache.path())
    };
    let error = impatient
        .fetch(weights(), &mut |_, _| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the server has sent nothing for 0.3 s"),
        "{error}"
    );
    // What it had sent is kept.
    let mut first = None;
    let path = impatient.fetch(weights(), &mut |done, _| {
        first.get_or_insert(done);
    });
    assert_eq!(fs::read(path.unwrap()).unwrap(), content);
    assert_eq!(first, Some(100_000));
}

#[test]
fn another_file_than_was_promised_is_refused_and_deleted() {
    let cache = tempfile::tempdir().unwrap();
    let mut wrong = site(b"these are not the weights");
    wrong.etag = ABC.to_owned();
    let server = Server::new(wrong);
    let error = server
        .hub(cache.path())
        .fetch(weights(), &mut |_, _| {})
        .unwrap_err();
    assert!(
        matches!(&error, FetchError::Checksum { expected, .. } if expected == ABC),
        "{error}"
    );
    assert_eq!(files(cache.path()), Vec::<String>::new());
    // Once the server sends the promised file, it is accepted.
    server.site.lock().unwrap().content = b"abc".to_vec();
    let path = server.hub(cache.path()).fetch(weights(), &mut |_, _| {});
    assert_eq!(fs::read(path.unwrap()).unwrap(), b"abc");
}

#[test]
fn what_the_server_lacks_is_named() {
    let cache = tempfile::tempdir().unwrap();
    for status in [404, 401] {
        let mut none = site(b"");
        none.status = status;
        let server = Server::new(none);
        let error = server.hub(cache.path()).fetch(weights(), &mut |_, _| {});
        let text = error.unwrap_err().to_string();
        let url = "timm/deit_tiny_patch16_224.fb_in1k/resolve/main/model.safetensors`";
        assert!(text.contains(url), "{text}");
        assert!(text.contains(&format!("(status {status})")), "{text}");
    }
    let mut other = site(b"abc");
    other.etag = "900150983cd24fb0d6963f7d28e17f72".to_owned();
    let server = Server::new(other);
    let error = server.hub(cache.path()).fetch(weights(), &mut |_, _| {});
    assert!(matches!(error, Err(FetchError::NoChecksum { .. })));
    assert_eq!(files(cache.path()), Vec::<String>::new());
    // No server listens there.
    let hub = Hub {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        cache: Some(cache.path().to_owned()),
        silence: None,
    };
    let error = hub.fetch(weights(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, FetchError::Interrupted { .. }), "{error}");
}
