//! The memory that an operation uses in addition to what is already in use.

use burn::tensor::Device;

use super::BenchError;

/// The maximum number of bytes by which the process (or, for a GPU, the device's memory pool) grew while `work` ran.
/// `None` if the system does not report it: the peak of the process is read from Linux.
///
/// Memory that was freed before can be reused unnoticed, so this is exact only in a process that has done little else.
///
/// # Errors
/// If the device fails.
pub fn peak_of<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<Option<u64>, BenchError> {
    device.sync().map_err(BenchError::Device)?;
    let pool = device.memory_pool_usage().map(|usage| usage.bytes_reserved);
    reset_peak();
    let before = process("VmRSS:");
    let result = work()?;
    device.sync().map_err(BenchError::Device)?;
    let peak = process("VmHWM:");
    let pool_after = device.memory_pool_usage().map(|usage| usage.bytes_reserved);
    drop(result);
    Ok(match (pool, pool_after) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => before
            .zip(peak)
            .map(|(before, peak)| peak.saturating_sub(before)),
    })
}

/// A number of bytes in MiB, for a table; `-` if it is not known.
pub fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| {
        format!("{:.1}", bytes as f64 / 1_048_576.0)
    })
}

/// Resets the kernel's record of the peak. If that is not possible, the peak may be from the start of the process, and
/// the reported number too large, never too small.
fn reset_peak() {
    let _ = fs_err::write("/proc/self/clear_refs", "5");
}

/// A line of the kernel's status of this process, in bytes.
fn process(field: &str) -> Option<u64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_block_that_is_written_to_is_seen() {
        let size = 256 << 20;
        let peak = peak_of(&Device::flex(), || Ok(vec![1u8; size]))
            .unwrap()
            .unwrap();
        // Other tests free memory at the same time.
        assert!(peak >= size as u64 / 4 * 3, "{peak}");
    }
}
