//! In place of `download/` in a build without the feature `fetch`: nothing is downloaded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::FetchError;
use super::cache::Cache;
use super::hub::{FILE, Told};
use super::sum::{Commit, Sum};

fn refused<T>(url: &str) -> Result<T, FetchError> {
    Err(FetchError::NoFeature(url.to_owned()))
}

pub(super) fn into_cache(
    url: &dyn Fn(&str) -> String,
    _: &Cache,
    _: Duration,
    _: Told<'_>,
) -> Result<PathBuf, FetchError> {
    refused(&url(FILE))
}

pub(super) fn describe(url: &str, _: &Cache, _: Commit) -> Result<(), FetchError> {
    refused(url)
}

pub(super) fn file(
    url: &str,
    _: Sum,
    _: &Path,
    _: Duration,
    _: Told<'_>,
) -> Result<(), FetchError> {
    refused(url)
}
