//! The bytes of an image file, which are read only if it is a regular file with an acceptable size.

use std::fs::File;
use std::path::Path;

use crate::regular;

/// Allowance for a file's content besides its pixels: colour profiles, previews, camera metadata.
const EXTRA_BYTES: u64 = 64 << 20;

/// What is read of an image file, with limits, so that a small or a huge file cannot exhaust the machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Maximum number of pixels, width times height. It also limits the size of a file, see [`file_bytes`](Self::file_bytes).
    pub max_pixels: u64,
    /// Whether an image's alpha is read, for models of four channels.
    pub alpha: bool,
}

impl Default for ImageLimits {
    /// Pillow's limit: an image with more than `2 * 89_478_485` pixels is an error there.
    fn default() -> Self {
        Self::of(178_956_970)
    }
}

impl ImageLimits {
    /// Colours of images of up to so many pixels.
    pub const fn of(max_pixels: u64) -> Self {
        let alpha = false;
        Self { max_pixels, alpha }
    }

    /// The largest file that is read, in bytes: uncompressed 8-bit pixels with alpha, plus 64 MiB.
    pub fn file_bytes(self) -> u64 {
        EXTRA_BYTES.saturating_add(self.max_pixels.saturating_mul(4))
    }

    /// Rejects a file that is too large, with a message.
    pub(super) fn check_bytes(self, bytes: u64) -> Result<(), String> {
        let most = self.file_bytes();
        if bytes <= most {
            return Ok(());
        }
        Err(format!(
            "the file has {bytes} bytes, more than the {most} that an image of `data.max_pixels` = {} pixels may have",
            self.max_pixels
        ))
    }

    /// Rejects an image that is too large, with a message.
    pub(super) fn check_pixels(self, width: u32, height: u32) -> Result<(), String> {
        let most = self.max_pixels;
        if u64::from(width) * u64::from(height) <= most {
            return Ok(());
        }
        Err(format!(
            "{width} x {height} pixels are more than `data.max_pixels` = {most}"
        ))
    }

    /// The maximum memory of a decoder, in bytes: 16-bit pixels with alpha, plus 64 MiB.
    pub fn decoded_bytes(self) -> u64 {
        EXTRA_BYTES.saturating_add(self.max_pixels.saturating_mul(8))
    }
}

/// The content of an image file.
///
/// # Errors
///
/// The reason, as text: the file is missing, a dead link, not a regular file (reading a pipe could block forever, and a
/// device has no end), larger than [`ImageLimits::file_bytes`], or unreadable.
pub(super) fn read(path: &Path, limits: ImageLimits) -> Result<Vec<u8>, String> {
    let file = regular::open(path).map_err(|error| why(path, &error))?;
    // `fs_err` would repeat the path.
    let words = |error: std::io::Error| error.to_string();
    limits.check_bytes(file.metadata().map_err(words)?.len())?;
    content(file, limits)
}

/// What an open file holds. It may have grown, so that its size says nothing yet.
fn content(file: File, limits: ImageLimits) -> Result<Vec<u8>, String> {
    let bytes = regular::beginning(file, limits.file_bytes().saturating_add(1));
    let bytes = bytes.map_err(|error| error.to_string())?;
    limits.check_bytes(bytes.len() as u64)?;
    Ok(bytes)
}

/// Why a path cannot be read: the system's message, with the target if the path is a link.
pub(super) fn why(path: &Path, error: &std::io::Error) -> String {
    match std::fs::read_link(path) {
        Ok(target) if is_dead_link(path) => format!(
            "a link to `{}` that leads nowhere: {error}",
            target.display()
        ),
        _ => error.to_string(),
    }
}

/// Whether a path is a link whose target is missing.
pub(super) fn is_dead_link(path: &Path) -> bool {
    path.is_symlink() && std::fs::metadata(path).is_err()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let limits = ImageLimits::of(100);
        let most = limits.file_bytes();
        assert_eq!(most, 67_108_864 + 400);
        // Sparse files: they take no space on the disk.
        let file = fs_err::File::create(&path).unwrap();
        file.set_len(most).unwrap();
        assert_eq!(read(&path, limits).unwrap().len() as u64, most);
        file.set_len(100 << 30).unwrap();
        let reason = read(&path, limits).unwrap_err();
        assert!(reason.contains("107374182400 bytes"), "{reason}");
        assert!(reason.contains("`data.max_pixels` = 100"), "{reason}");
        // Grown since its size was read.
        file.set_len(most + 1).unwrap();
        let reason = content(File::open(&path).unwrap(), limits).unwrap_err();
        assert!(reason.contains("`data.max_pixels` = 100"), "{reason}");
    }

    #[test]
    fn a_folder_is_no_image() {
        let dir = tempfile::tempdir().unwrap();
        let reason = read(dir.path(), ImageLimits::default()).unwrap_err();
        assert_eq!(reason, "a folder, not a file");
    }

    /// The pipe would block forever, and the device would never end.
    #[cfg(unix)]
    #[test]
    fn pipes_sockets_and_devices_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe.png"))
            .status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket.png")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero.png")).unwrap();
        for (name, reason) in [
            ("pipe.png", "a named pipe, not a file"),
            ("socket.png", "a socket, not a file"),
            ("zero.png", "a device, not a file"),
        ] {
            assert_eq!(read(&at(name), ImageLimits::default()).unwrap_err(), reason);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_dead_link_names_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let (dead, circle) = (dir.path().join("dead.png"), dir.path().join("circle.png"));
        std::os::unix::fs::symlink("gone.png", &dead).unwrap();
        std::os::unix::fs::symlink("circle.png", &circle).unwrap();
        let missing = dir.path().join("missing.png");
        for (path, words) in [
            (&dead, "a link to `gone.png` that leads nowhere"),
            (&circle, "a link to `circle.png`"),
        ] {
            let reason = read(path, ImageLimits::default()).unwrap_err();
            assert!(reason.contains(words), "{reason}");
            assert!(is_dead_link(path));
        }
        let reason = read(&missing, ImageLimits::default()).unwrap_err();
        assert!(!reason.contains("link"), "{reason}");
        assert!(!is_dead_link(&missing));
    }
}
