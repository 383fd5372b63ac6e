#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use fs_err as fs;

use super::server::{ABC, COMMIT, Server, site};
use super::*;
use crate::fetch::Published;
use crate::fetch::hub::{Hub, PATIENCE};

impl Server {
    /// A hub at this server, with a cache in this folder.
    fn hub(&self, cache: &Path) -> Hub {
        Hub {
            endpoint: self.address.clone(),
            cache: Some(cache.to_owned()),
            silence: PATIENCE,
        }
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
        other.address.clone() + "/bytes",
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

/// Neither if no server answers, nor if its answer breaks before the first byte.
#[test]
fn a_download_that_never_began_leaves_no_file() {
    let cache = tempfile::tempdir().unwrap();
    let mut broken = site(b"abc");
    broken.breaks_after = Some(0);
    let server = Server::new(broken);
    for address in ["http://127.0.0.1:1", &server.address] {
        let (url, sum) = (format!("{address}/set.tgz"), Sum::parse(ABC).unwrap());
        let to = cache.path().join("set.tgz");
        let error = file(&url, sum, &to, PATIENCE, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, FetchError::Interrupted { .. }), "{error}");
        assert_eq!(files(cache.path()), Vec::<String>::new());
    }
    assert_eq!(server.starts(), 1);
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
        silence: Duration::from_secs(3),
        ..server.hub(cache.path())
    };
    let error = impatient
        .fetch(weights(), &mut |_, _| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the server has sent nothing for 3 s"),
        "{error}"
    );
    // What it had sent is kept.
    let mut first = None;
    let path = server.hub(cache.path()).fetch(weights(), &mut |done, _| {
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
        endpoint: "http://127.0.0.1:1".to_owned(),
        ..server.hub(cache.path())
    };
    let error = hub.fetch(weights(), &mut |_, _| {}).unwrap_err();
    let FetchError::Placed { cause, path } = error else {
        panic!("{error}");
    };
    assert!(matches!(*cause, FetchError::Interrupted { .. }), "{cause}");
    // Whoever has the file puts it where the message says.
    fs::write(&path, "from elsewhere").unwrap();
    assert_eq!(hub.fetch(weights(), &mut |_, _| {}).unwrap(), path);
}
