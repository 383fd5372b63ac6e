//! Decides from the offers of all processes whether the devices of a job can sum on their own.

use serde::{Deserialize, Serialize};

/// The capability of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Offer {
    /// A device whose gradients are summed in host memory: any device other than a CUDA GPU.
    Host,
    /// A CUDA GPU without a usable library for sums, and the reason.
    Unable(String),
    /// A CUDA GPU with such a library.
    Gpu {
        /// An identifier of the host.
        host: String,
        /// The PCI address of the card, if known.
        card: Option<String>,
        /// The library and its version.
        engine: String,
    },
}

/// Decides from the offers of all processes, in order of rank: the library under which they join, or `None` if no process has a CUDA
/// GPU. All of them reach the same decision.
///
/// # Errors
/// The reason, if some process has a CUDA GPU, but the devices cannot sum together.
pub(super) fn decide(offers: &[Offer]) -> Result<Option<String>, String> {
    if offers.iter().all(|offer| *offer == Offer::Host) {
        return Ok(None);
    }
    let mut gpus = Vec::new();
    for (rank, offer) in offers.iter().enumerate() {
        match offer {
            Offer::Gpu { host, card, engine } => gpus.push((host, card, engine)),
            Offer::Unable(reason) => return Err(format!("process {rank}: {reason}")),
            Offer::Host => {
                return Err(format!(
                    "process {rank} does not train on `cuda`, as others do: give all processes such a device"
                ));
            }
        }
    }
    for (rank, (host, card, engine)) in gpus.iter().enumerate() {
        let same_card =
            |other: usize| card.is_some() && gpus[other].0 == *host && gpus[other].1 == *card;
        if let (Some(other), Some(card)) = ((0..rank).find(|other| same_card(*other)), card) {
            return Err(format!(
                "processes {other} and {rank} share one GPU (`{card}`), which {engine} refuses: start as many processes on a host \
                 as it has GPUs, with a `train.device` that names no index"
            ));
        }
        let of_first = gpus[0].2;
        if *engine != of_first {
            return Err(format!(
                "process 0 has {of_first} and process {rank} has {engine}: give all hosts the same"
            ));
        }
    }
    Ok(gpus.first().map(|(_, _, engine)| (*engine).clone()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn gpu(host: &str, card: &str, version: &str) -> Offer {
        Offer::Gpu {
            host: host.to_owned(),
            card: (!card.is_empty()).then(|| card.to_owned()),
            engine: format!("NCCL {version}"),
        }
    }

    fn instead(offers: &[Offer]) -> String {
        decide(offers).unwrap_err()
    }

    #[test]
    fn a_gpu_for_each_process_joins() {
        let all = [
            gpu("a", "07", "2.27.5"),
            gpu("a", "08", "2.27.5"),
            gpu("b", "07", "2.27.5"),
        ];
        assert_eq!(decide(&all), Ok(Some("NCCL 2.27.5".to_owned())));
        // Cards that cannot be distinguished are left to NCCL.
        let unknown = [gpu("a", "", "2.27.5"), gpu("a", "", "2.27.5")];
        assert_eq!(decide(&unknown), Ok(Some("NCCL 2.27.5".to_owned())));
    }

    #[test]
    fn other_devices_need_no_reason() {
        assert_eq!(decide(&[Offer::Host, Offer::Host]), Ok(None));
    }

    #[test]
    fn a_shared_gpu_is_named_with_a_way_out() {
        let all = [
            gpu("a", "07", "2.27.5"),
            gpu("a", "08", "2.27.5"),
            gpu("a", "07", "2.27.5"),
        ];
        let reason = instead(&all);
        assert!(
            reason.starts_with("processes 0 and 2 share one GPU (`07`), which NCCL 2.27.5 refuses"),
            "{reason}"
        );
        assert!(
            reason.contains("as many processes on a host as it has GPUs"),
            "{reason}"
        );
    }

    #[test]
    fn the_first_that_cannot_says_why() {
        let gone = || Offer::Unable("no library".to_owned());
        assert_eq!(
            instead(&[gpu("a", "07", "2"), gone(), Offer::Host]),
            "process 1: no library"
        );
        assert!(
            instead(&[gpu("a", "07", "2"), Offer::Host, gone()])
                .starts_with("process 1 does not train on `cuda`")
        );
        let reason = instead(&[gpu("a", "07", "2.27.5"), gpu("b", "07", "2.20.1")]);
        assert!(
            reason.starts_with("process 0 has NCCL 2.27.5 and process 1 has NCCL 2.20.1"),
            "{reason}"
        );
    }
}
