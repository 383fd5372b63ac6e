//! Device names: from `--device` and `train.device` to a Burn device, and the devices of this machine.
//!
//! Burn's devices are lazy, and a missing driver panics at first use, on another thread. So a device is always looked
//! up among the existing ones, and never created from its name.

use std::fmt;

#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
use burn::tensor::DeviceKind;
use burn::tensor::{Device, DeviceType};
use kvt_models::Precision;
use kvt_ops::cpu_multiplies_bf16;

use crate::world::Local;

/// A kind of device that a name can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The CPU, with Burn's `flex` backend.
    Cpu,
    /// Any GPU through wgpu, with shaders in WGSL.
    Wgpu,
    /// A GPU through Vulkan, with shaders in SPIR-V.
    Vulkan,
    /// An Apple GPU.
    Metal,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Rocm,
}

impl Kind {
    /// All kinds, in the order of preference of `auto`.
    pub const ALL: [Self; 6] = [
        Self::Cuda,
        Self::Rocm,
        Self::Metal,
        Self::Vulkan,
        Self::Wgpu,
        Self::Cpu,
    ];

    /// Burn's name of the kind, or `None` if this build does not include it.
    fn burn(self) -> Option<DeviceType> {
        let built = [
            (Self::Cpu, DeviceType::Flex),
            #[cfg(feature = "wgpu")]
            (Self::Wgpu, DeviceType::Wgpu),
            #[cfg(feature = "vulkan")]
            (Self::Vulkan, DeviceType::Vulkan),
            #[cfg(feature = "metal")]
            (Self::Metal, DeviceType::Metal),
            #[cfg(feature = "cuda")]
            (Self::Cuda, DeviceType::Cuda),
            #[cfg(feature = "rocm")]
            (Self::Rocm, DeviceType::Rocm),
        ];
        let mut built = built.into_iter();
        built.find_map(|(kind, burn)| (kind == self).then_some(burn))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
        })
    }
}

/// The allowed device names.
pub(crate) const NAMES: &str = "`auto`, `cpu`, `wgpu`, `vulkan`, `metal`, `cuda` or `rocm`, a GPU with an index up to 255 as in `cuda:1`";

/// The name of a device that [`automatic`] finds.
const AUTO: &str = "auto";

/// A device that is not available.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An invalid device name.
    #[error("`{0}` is not a device: use {names}", names = NAMES)]
    Name(String),
    /// A kind that this binary was built without.
    #[error(
        "this build does not include `{kind}`: build with `--features {kind}`; available: {available}"
    )]
    NotBuilt {
        /// The requested kind.
        kind: Kind,
        /// The available devices.
        available: String,
    },
    /// Fewer devices than processes.
    #[error(
        "{processes} processes were started on this host, which has {count} `{kind}`: start as many as there are devices, or let them \
         share one by naming it with its index, `{kind}:0`"
    )]
    TooFew {
        /// The kind.
        kind: Kind,
        /// The number of its devices.
        count: usize,
        /// The number of processes on the host.
        processes: usize,
    },
    /// A precision that a device does not support.
    #[error(
        "device `{device}` cannot compute in {}: set `train.precision` to {ways}, or choose another `train.device`",
        .precision.name()
    )]
    Precision {
        /// The requested precision.
        precision: Precision,
        /// The device's name.
        device: String,
        /// The supported precisions.
        ways: String,
    },
    /// A kind or index that this machine does not have.
    #[error("there is no device `{wanted}` on this machine; there is {available}")]
    Absent {
        /// The requested device.
        wanted: String,
        /// The available devices.
        available: String,
    },
}

/// The kind and the index of a device by name: a kind, or a kind with an index (`cuda:1`). `None` for `auto`.
///
/// # Errors
/// [`DeviceError::Name`].
pub(crate) fn parse(text: &str) -> Result<Option<(Kind, usize)>, DeviceError> {
    if text == AUTO {
        return Ok(None);
    }
    let invalid = || DeviceError::Name(text.to_owned());
    let (kind, index) = match text.split_once(':') {
        None => (text, 0),
        // A number could have a sign, but an index must not.
        Some((kind, index)) if index.starts_with(|first: char| first.is_ascii_digit()) => {
            (kind, index.parse::<u8>().map_err(|_| invalid())?)
        }
        Some(_) => return Err(invalid()),
    };
    let mut kinds = Kind::ALL.into_iter();
    let kind = kinds.find(|known| known.to_string() == kind);
    // The CPU is always one device.
    let kind = kind.filter(|kind| *kind != Kind::Cpu || index == 0);
    Ok(Some((kind.ok_or_else(invalid)?, index.into())))
}

/// An existing device.
#[derive(Clone, Debug)]
pub struct ResolvedDevice {
    /// Its kind.
    pub kind: Kind,
    /// Its name, as accepted by `--device`.
    pub name: String,
    /// The hardware, or the adapter.
    pub description: String,
    /// Whether it is a GPU emulated on the CPU: correct, but slow.
    pub software: bool,
    /// The device.
    pub device: Device,
}

impl ResolvedDevice {
    /// The PCI address of the card, if it is known.
    #[cfg(feature = "nccl")]
    pub(crate) fn card(&self) -> Option<String> {
        let card = self.device.identity()?.physical?;
        card.pci_address.map(|address| address.to_string())
    }

    /// Rejects a precision that the device does not support; returns a warning if it is slower than f32.
    ///
    /// # Errors
    /// [`DeviceError::Precision`], which lists the supported precisions.
    pub fn check_precision(&self, precision: Precision) -> Result<Option<String>, DeviceError> {
        let has = |precision: &Precision| self.device.supports_dtype(precision.dtype());
        if !has(&precision) {
            let all = [Precision::F16, Precision::Bf16, Precision::F32];
            let supported = all.iter().filter(|precision| has(precision));
            let ways: Vec<String> = supported.map(|way| format!("\"{}\"", way.name())).collect();
            return Err(DeviceError::Precision {
                precision,
                device: self.name.clone(),
                ways: ways.join(" or "),
            });
        }
        // Measured with DeiT, which spends its time in linear layers. Convolutions and scores are computed in f32 between casts.
        let is_fast = match precision {
            Precision::F32 => true,
            Precision::Bf16 => cpu_multiplies_bf16(),
            Precision::F16 => false,
        };
        let is_slow = self.device == Device::flex() && !is_fast;
        Ok(is_slow.then(|| {
            format!(
                "`train.precision` = \"{}\" is slower than \"f32\" on this CPU, which rounds numbers to 16 bits and \
                 multiplies them in 32: it is for GPUs",
                precision.name()
            )
        }))
    }
}

/// The device with a name.
///
/// # Errors
/// If the name is invalid, or this build or this machine has no such device; the error lists the available devices.
pub fn resolve(text: &str) -> Result<ResolvedDevice, DeviceError> {
    let found = match parse(text)? {
        None => automatic(),
        Some((kind, _)) if kind.burn().is_none() => {
            let available = available();
            return Err(DeviceError::NotBuilt { kind, available });
        }
        Some((kind, index)) => {
            let device = enumerate(kind).unwrap_or_default().into_iter().nth(index);
            device.map(|device| described(kind, index, device))
        }
    };
    found.ok_or_else(|| DeviceError::Absent {
        wanted: text.to_owned(),
        available: available(),
    })
}

/// The device with a name for one of several processes of a host: if the name has no index, the process's local number is
/// used, so that each process has its own device. The CPU is shared.
///
/// # Errors
/// As [`resolve`], and if there are fewer devices than processes.
pub fn resolve_local(text: &str, local: Local) -> Result<ResolvedDevice, DeviceError> {
    let first = resolve(text)?;
    let kind = first.kind;
    if local.size == 1 || text.contains(':') || kind == Kind::Cpu {
        return Ok(first);
    }
    let all = enumerate(kind).unwrap_or_default().into_iter().enumerate();
    let is_meant = |(_, device): &(usize, Device)| text != AUTO || !is_software(kind, device);
    let all: Vec<_> = all.filter(is_meant).collect();
    let count = all.len();
    let own = all.into_iter().nth(local.rank);
    let own = own.map(|(index, device)| described(kind, index, device));
    own.ok_or(DeviceError::TooFew {
        kind,
        count,
        processes: local.size,
    })
}

/// The devices of this machine, in the order of preference of `auto`.
fn all() -> impl Iterator<Item = ResolvedDevice> {
    let kinds = Kind::ALL.into_iter();
    kinds.filter_map(|kind| find(kind).ok()).flatten()
}

/// The device for `auto`: the first that is not a software adapter, which would be slower than the CPU backend. No other device is
/// opened: the thread of one that is open wakes thousands of times a second, and makes a training step on two CPUs 5 to 12 % longer.
pub fn automatic() -> Option<ResolvedDevice> {
    Kind::ALL.into_iter().find_map(|kind| {
        let mut devices = enumerate(kind).ok()?.into_iter().enumerate();
        let (index, device) = devices.find(|(_, device)| !is_software(kind, device))?;
        Some(described(kind, index, device))
    })
}

fn available() -> String {
    let names = all().map(|found| format!("`{}` ({})", found.name, found.description));
    names.collect::<Vec<_>>().join(", ")
}

/// The devices of a kind on this machine, opened.
///
/// # Errors
/// The reason why there is none.
pub fn find(kind: Kind) -> Result<Vec<ResolvedDevice>, String> {
    let devices = enumerate(kind)?.into_iter().enumerate();
    Ok(devices
        .map(|(index, device)| described(kind, index, device))
        .collect())
}

/// The devices of a kind, in the order of their indices. They are not opened.
fn enumerate(kind: Kind) -> Result<Vec<Device>, String> {
    let Some(device_type) = kind.burn() else {
        return Err(format!("not in this build (needs `--features {kind}`)"));
    };
    let devices: Vec<Device> = Device::enumerate(device_type).into_iter().collect();
    if devices.is_empty() {
        return Err("no driver or no such hardware found".to_owned());
    }
    Ok(devices)
}

/// Whether a device is emulated on the CPU, by the type of its adapter.
#[cfg_attr(
    not(any(feature = "wgpu", feature = "vulkan", feature = "metal")),
    expect(unused_variables, reason = "only these have software adapters")
)]
fn is_software(kind: Kind, device: &Device) -> bool {
    match kind {
        #[cfg(feature = "wgpu")]
        Kind::Wgpu => *device == Device::wgpu(DeviceKind::Cpu),
        #[cfg(feature = "vulkan")]
        Kind::Vulkan => *device == Device::vulkan(DeviceKind::Cpu),
        #[cfg(feature = "metal")]
        Kind::Metal => *device == Device::metal(DeviceKind::Cpu),
        _ => false,
    }
}

/// A device with its name and its hardware, which a GPU says when it is opened.
fn described(kind: Kind, index: usize, device: Device) -> ResolvedDevice {
    let software = is_software(kind, &device);
    let mut description = "unknown adapter".to_owned();
    if kind == Kind::Cpu {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        description = format!("{threads} threads");
    }
    #[cfg(feature = "gpu")]
    if let Some(identity) = device.identity() {
        description = identity.name;
    }
    if software {
        description += ", a software adapter";
    }
    ResolvedDevice {
        kind,
        name: match index {
            0 => kind.to_string(),
            _ => format!("{kind}:{index}"),
        },
        description,
        software,
        device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_machine_may_have() {
        let wanted = |text: &str| parse(text).ok();
        assert_eq!(wanted("auto"), Some(None));
        for (text, kind, index) in [
            ("cpu", Kind::Cpu, 0),
            ("cpu:0", Kind::Cpu, 0),
            ("wgpu", Kind::Wgpu, 0),
            ("cuda:7", Kind::Cuda, 7),
            ("rocm:255", Kind::Rocm, 255),
        ] {
            assert_eq!(wanted(text), Some(Some((kind, index))), "{text}");
        }
        for text in [
            "",
            "gpu",
            "CPU",
            " cpu",
            "cpu:3",
            "cpu:",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:0x1",
            "cuda:1:2",
            "cuda:256",
            "cuda:99999999999",
            "wgpu:...",
            "auto:0",
        ] {
            assert_eq!(wanted(text), None, "{text}");
        }
    }

    /// A software rasteriser is not a card, which it says when it is opened.
    #[cfg(feature = "gpu")]
    #[test]
    fn software_is_told_before_it_is_opened() {
        for found in Kind::ALL.into_iter().flat_map(find).flatten() {
            let identity = found.device.identity();
            let is_card = identity.is_none_or(|identity| identity.physical.is_some());
            assert_eq!(found.software, !is_card, "{found:?}");
        }
    }

    #[test]
    fn the_cpu_has_all_precisions_and_warns_of_slow_ones() {
        let Ok(cpu) = resolve("cpu") else {
            unreachable!("there is a CPU");
        };
        for (precision, warns) in [
            (Precision::F32, false),
            (Precision::Bf16, !cpu_multiplies_bf16()),
            (Precision::F16, true),
        ] {
            let warning = cpu.check_precision(precision);
            assert!(
                matches!(&warning, Ok(text) if text.is_some() == warns),
                "{warning:?}"
            );
        }
    }

    #[test]
    fn a_device_without_a_precision_says_what_it_has() {
        let error = DeviceError::Precision {
            precision: Precision::Bf16,
            device: "wgpu".to_owned(),
            ways: "\"f16\" or \"f32\"".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "device `wgpu` cannot compute in bf16: set `train.precision` to \"f16\" or \"f32\", or choose another `train.device`"
        );
    }
}
