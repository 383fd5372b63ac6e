//! Downloads from a server of the tests' own.

use super::*;
use crate::fetch::download::server::{Server, site};

/// A server with the photos, and their data set there.
fn server(content: &[u8]) -> (Server, Dataset) {
    let server = Server::new(site(content));
    let url = format!("{}/nette.tgz", server.address);
    let tiny = set(&[(url, content)], [2, 1, 0], CLASSES);
    (server, tiny)
}

#[test]
fn a_set_is_downloaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tiny) = server(&photos());
    let out = folder.path().join("data/tiny");
    assert_eq!(tiny.fetch(&out, &mut |_, _| {}).unwrap(), Fetched::Now);
    assert_eq!(files(&out), UNPACKED);
    // The archive is gone with its part.
    assert_eq!(fs::read_dir(folder.path().join("data")).unwrap().count(), 1);
    assert_eq!(tiny.fetch(&out, &mut |_, _| {}).unwrap(), Fetched::Before);
    assert_eq!(server.starts(), 1);
}

#[test]
fn a_download_that_broke_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tiny) = server(&photos());
    server.site.lock().unwrap().breaks_after = Some(1_000);
    let out = folder.path().join("tiny");
    let error = tiny.fetch(&out, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("the same command resumes it"), "{error}");
    assert_eq!(files(folder.path()), ["nette.tgz.part"]);
    tiny.fetch(&out, &mut |_, _| {}).unwrap();
    assert_eq!(files(&out), UNPACKED);
    let requests = server.requests.lock().unwrap();
    assert_eq!(requests.last().unwrap().1, 1_000);
}

#[test]
fn another_file_than_the_known_one_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tiny) = server(&photos());
    server.site.lock().unwrap().content = b"other".to_vec();
    let error = tiny.fetch(&folder.path().join("tiny"), &mut |_, _| {});
    let error = error.unwrap_err();
    assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// The message says what to get, and where it belongs.
#[test]
fn without_a_network_one_knows_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let url = "http://127.0.0.1:1/nette.tgz".to_owned();
    let tiny = set(&[(url.clone(), &photos())], [2, 1, 0], CLASSES);
    let error = tiny.fetch(&folder.path().join("data/tiny"), &mut |_, _| {});
    let error = error.unwrap_err().to_string();
    let place = folder.path().join("data/nette.tgz");
    assert!(error.contains(&url), "{error}");
    let words = format!("put it at `{}`", place.display());
    assert!(error.contains(&words), "{error}");
    fs::write(place, photos()).unwrap();
    tiny.fetch(&folder.path().join("data/tiny"), &mut |_, _| {})
        .unwrap();
}
