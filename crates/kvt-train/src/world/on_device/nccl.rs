//! Sums with NCCL, on CUDA devices with one process each.
//!
//! NCCL is loaded on first use, so that a build with it also starts on machines without it. Its communicator is non-blocking
//! (`ncclConfig_t.blocking = 0`): each call only starts an operation, and `ncclCommGetAsyncError` reports whether it is done. So
//! nothing here waits for another process, and a process whose partner has failed can still abort.
//!
//! The sums run on a separate stream, since CubeCL does not expose its own. So the host waits for CubeCL before the sums are
//! started, and for NCCL before they are read. In between CubeCL must not be used: its allocations may wait for all streams of
//! the device, and so for NCCL's sums, which wait for other processes.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use burn::tensor::{Device, Tensor};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError};
use cudarc::nccl::{result, sys};
use sys::ncclResult_t;

use super::engine::{self, Engine, EngineError};
use super::memory::CudaMemory;

/// The library's name in messages.
const NAME: &str = "NCCL";

/// The first version with non-blocking communicators, in NCCL's numbering.
const FIRST: i32 = 21_400;

/// Bytes of the identifier with which processes join.
const ID: usize = 128;

/// The library and its version.
///
/// # Errors
/// If it cannot be loaded, or is too old.
pub(super) fn version() -> Result<String, EngineError> {
    // SAFETY: loads and unloads a library, whose initialisers are the only foreign code that runs.
    #[expect(unsafe_code, reason = "loads a library of C")]
    let is_there = unsafe { sys::is_culib_present() };
    if !is_there {
        return Err(failed(
            "it cannot be loaded, since no `libnccl.so` is among the libraries (`LD_LIBRARY_PATH`): the package `libnccl-dev` \
             has it, and where there is only `libnccl.so.2`, a link of that name will do"
                .to_owned(),
        ));
    }
    let version = result::get_nccl_version().map_err(|error| of_call("ncclGetVersion", error.0))?;
    if version < FIRST {
        return Err(failed(format!(
            "version {version} is too old, install 2.14 or later"
        )));
    }
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    Ok(format!("NCCL {major}.{minor}.{patch}"))
}

/// NCCL, for one device.
pub(super) struct Library(pub(super) Device);

impl engine::Library for Library {
    fn name(&self) -> &'static str {
        NAME
    }

    fn id(&self) -> Result<Vec<u8>, EngineError> {
        let id = result::get_uniqueid().map_err(|error| of_call("ncclGetUniqueId", error.0))?;
        Ok(id
            .internal
            .iter()
            .map(|byte| byte.cast_unsigned())
            .collect())
    }

    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Box<dyn Engine>, EngineError> {
        let id: [u8; ID] = id
            .try_into()
            .map_err(|_| failed(format!("{} bytes to join by", id.len())))?;
        // Finds the index of the CUDA device, and whether its memory is accessible at all.
        let probe = CudaMemory::of(Tensor::zeros([1], &self.0))?;
        let joined = Nccl::join(id, (rank, size), probe.device)?;
        Ok(Box::new(joined))
    }
}

/// A bucket, and the memory for its sum.
#[derive(Debug)]
struct Bucket {
    own: CudaMemory,
    sum: CudaMemory,
}

/// One of the processes that have joined.
struct Nccl {
    /// The communicator. NCCL writes to this location from its own thread while the processes join, so it is never freed.
    communicator: &'static AtomicPtr<sys::ncclComm>,
    /// Whether the communicator was aborted, and no longer exists.
    is_aborted: bool,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Recorded after the last started sum.
    done: CudaEvent,
    /// Not yet to be started.
    prepared: Vec<Bucket>,
    /// The sums of all buckets.
    sums: Vec<Tensor<1>>,
    /// To be started, in this order.
    waiting: VecDeque<Bucket>,
    /// Started, and perhaps not finished.
    started: Vec<Bucket>,
    /// Whether the last started sum is not yet covered by `done`.
    is_starting: bool,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL on CUDA device {}", self.context.ordinal())
    }
}

impl Nccl {
    fn join(
        id: [u8; ID],
        (rank, size): (usize, usize),
        device: usize,
    ) -> Result<Self, EngineError> {
        // The primary context, which CubeCL also uses: its allocations are valid here.
        let context = CudaContext::new(device).map_err(of_cuda)?;
        let stream = context.new_stream().map_err(of_cuda)?;
        let done = context.new_event(None).map_err(of_cuda)?;
        let communicator: &'static AtomicPtr<sys::ncclComm> =
            Box::leak(Box::new(AtomicPtr::new(ptr::null_mut())));
        let joining = Self {
            communicator,
            is_aborted: false,
            context,
            stream,
            done,
            prepared: Vec::new(),
            sums: Vec::new(),
            waiting: VecDeque::new(),
            started: Vec::new(),
            is_starting: false,
        };
        let id = sys::ncclUniqueId {
            internal: id.map(u8::cast_signed),
        };
        let count = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        let mut config = config();
        // SAFETY: the device is current since its context was created. The location of the communicator lives forever, and NCCL
        // copies id and settings before it returns.
        #[expect(unsafe_code, reason = "hands addresses to NCCL")]
        let begun = unsafe {
            sys::ncclCommInitRankConfig(
                communicator.as_ptr(),
                count(size),
                id,
                count(rank),
                (&raw mut config).cast(),
            )
        };
        begun_by("ncclCommInitRankConfig", begun)?;
        Ok(joining)
    }

    /// The communicator, if there is one.
    fn communicator(&self) -> Result<sys::ncclComm_t, EngineError> {
        let communicator = self.communicator.load(Ordering::Acquire);
        match (self.is_aborted, communicator.is_null()) {
            (true, _) => Err(failed("it was given up before".to_owned())),
            (false, true) => Err(failed("it has made no communicator".to_owned())),
            (false, false) => Ok(communicator),
        }
    }

    /// Whether NCCL has finished what its last call started.
    fn is_ready(&self) -> Result<bool, EngineError> {
        let communicator = self.communicator()?;
        // As an integer: a newer NCCL may return errors that the enum lacks.
        let mut state = 0_u32;
        // SAFETY: the communicator was made by NCCL and not aborted, and the state has the size of a C enum.
        #[expect(unsafe_code, reason = "hands addresses to NCCL")]
        let asked = unsafe { sys::ncclCommGetAsyncError(communicator, (&raw mut state).cast()) };
        begun_by("ncclCommGetAsyncError", asked)?;
        match state {
            state if state == ncclResult_t::ncclSuccess as u32 => Ok(true),
            state if state == ncclResult_t::ncclInProgress as u32 => Ok(false),
            state => Err(failed(meaning(state))),
        }
    }

    fn launch(&self, bucket: &Bucket) -> Result<(), EngineError> {
        // SAFETY: both are device memory of the same number of f32 values, which the bucket keeps in place until the sum is done.
        // The device's earlier work is done, since it was waited for. Work submitted meanwhile neither writes the input, of which
        // the bucket holds a tensor, nor touches the output, which the caller leaves alone until the sum is done. The
        // communicator was made by NCCL and is not aborted, and the stream belongs to its device.
        #[expect(unsafe_code, reason = "hands addresses to NCCL")]
        let begun = unsafe {
            sys::ncclAllReduce(
                bucket.own.address as *const _,
                bucket.sum.address as *mut _,
                bucket.own.numbers,
                sys::ncclDataType_t::ncclFloat32,
                sys::ncclRedOp_t::ncclSum,
                self.communicator()?,
                self.stream.cu_stream().cast(),
            )
        };
        begun_by("ncclAllReduce", begun)
    }
}

impl Engine for Nccl {
    fn prepare(&mut self, buckets: &mut dyn Iterator<Item = Tensor<1>>) -> Result<(), EngineError> {
        for bucket in buckets {
            // Never in place: a tensor may share its memory with another.
            let sum = Tensor::empty(bucket.dims(), &bucket.device());
            self.prepared.push(Bucket {
                own: CudaMemory::of(bucket)?,
                sum: CudaMemory::of(sum.clone())?,
            });
            self.sums.push(sum);
        }
        // Waits for the work that writes the buckets or last used the memory of the sums.
        self.prepared
            .last()
            .map_or(Ok(()), |bucket| bucket.own.wait())
    }

    fn start(&mut self) -> Result<(), EngineError> {
        self.waiting.extend(self.prepared.drain(..));
        self.poll().map(|_| ())
    }

    fn poll(&mut self) -> Result<bool, EngineError> {
        self.context.bind_to_thread().map_err(of_cuda)?;
        loop {
            if !self.is_ready()? {
                return Ok(false);
            }
            // Only now is the sum queued on the stream.
            if std::mem::take(&mut self.is_starting) {
                self.done.record(&self.stream).map_err(of_cuda)?;
            }
            let Some(bucket) = self.waiting.pop_front() else {
                break;
            };
            let begun = self.launch(&bucket);
            self.started.push(bucket);
            begun?;
            self.is_starting = true;
        }
        let is_done = self.done.try_is_complete().map_err(of_cuda)?;
        if is_done {
            self.started.clear();
        }
        Ok(is_done)
    }

    fn take(&mut self) -> Vec<Tensor<1>> {
        std::mem::take(&mut self.sums)
    }

    fn abort(&mut self) {
        let Ok(communicator) = self.communicator() else {
            return;
        };
        self.is_aborted = true;
        // SAFETY: the communicator was made by NCCL, and is passed to it for the last time. NCCL ends its kernels and threads
        // before it returns, so that the memory of the buckets may be released.
        #[expect(unsafe_code, reason = "hands an address to NCCL")]
        let _failure = unsafe { sys::ncclCommAbort(communicator) };
        // A failure of the abort cannot be handled: the job ends because of another failure, or has ended.
        self.prepared.clear();
        self.waiting.clear();
        self.started.clear();
        self.sums.clear();
    }
}

impl Drop for Nccl {
    /// Not with `ncclCommDestroy`, which may wait for other processes. Finished sums are not affected.
    fn drop(&mut self) {
        self.abort();
    }
}

/// The first fields of `ncclConfig_t`, as in the version that introduced it. NCCL reads as many bytes as `size` says, and uses
/// defaults for all later fields. Not cudarc's type, which grows with every version.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    /// Padding in the first version. A later one has a field here, and reads it as undefined.
    later: i32,
}

/// Settings of a non-blocking communicator.
fn config() -> Config {
    const UNDEFINED: i32 = i32::MIN;
    Config {
        size: size_of::<Config>(),
        magic: 0xcafe_beef,
        version: FIRST.cast_unsigned(),
        blocking: 0,
        later: UNDEFINED,
    }
}

fn failed(reason: String) -> EngineError {
    EngineError {
        library: NAME,
        reason,
    }
}

fn of_call(call: &str, result: ncclResult_t) -> EngineError {
    failed(format!("`{call}`: {}", meaning(result as u32)))
}

/// Whether a non-blocking call has started or finished its work.
fn begun_by(call: &str, result: ncclResult_t) -> Result<(), EngineError> {
    match result {
        ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => Ok(()),
        error => Err(of_call(call, error)),
    }
}

fn of_cuda(error: DriverError) -> EngineError {
    EngineError {
        library: "CUDA",
        reason: error.to_string(),
    }
}

/// The meaning of an NCCL error, with NCCL's last message.
fn meaning(error: u32) -> String {
    let known = match error {
        1 => "a call of CUDA failed",
        2 => "a call of the system failed",
        3 => "internal error",
        4 => "invalid argument",
        5 => "invalid usage",
        6 => "another process has ended, or the network failed",
        _ => "unknown error",
    };
    // SAFETY: the communicator is not accessed. The text is null or zero-terminated, and stays valid until NCCL fails again.
    #[expect(unsafe_code, reason = "reads a string of C")]
    let last = unsafe {
        let last = sys::ncclGetLastError(ptr::null_mut());
        if last.is_null() {
            String::new()
        } else {
            CStr::from_ptr(last).to_string_lossy().trim().to_owned()
        }
    };
    if last.is_empty() {
        format!("{known} ({error})")
    } else {
        format!("{known} ({error}): {last}")
    }
}
