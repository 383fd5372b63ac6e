//! Sums by NCCL, on CUDA devices of one process each.
//!
//! NCCL is loaded when it is asked for, so that a build with it starts without. Its communicator does not block
//! (`ncclConfig_t.blocking = 0`): each call only starts something, and `ncclCommGetAsyncError` tells whether that is done.
//! So nothing here waits for another process, and a process whose partner has failed can still abort.
//!
//! The sums run on a stream of their own, since CubeCL does not show the one that it computes on. So the host waits for
//! CubeCL before a bucket is started, and for NCCL before the sums are read: one is packed while those before it are summed.

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

use super::memory::CudaMemory;
use super::{Engine, EngineError, connect};

/// The first version with communicators that do not block, as NCCL counts.
const FIRST: i32 = 21_400;

/// The bytes of what processes join by.
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
pub(super) struct Library {
    device: Device,
}

impl Library {
    pub(super) fn new(device: Device) -> Self {
        Self { device }
    }
}

impl connect::Library for Library {
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
        // Which of CUDA's devices it is, and whether its memory can be had at all.
        let probe = CudaMemory::of(Tensor::zeros([1], &self.device))?;
        let joined = Nccl::join(id, (rank, size), probe.device())?;
        Ok(Box::new(joined))
    }
}

/// A bucket and where its sum goes.
#[derive(Debug)]
struct Bucket {
    own: CudaMemory,
    sum: CudaMemory,
}

/// One of the processes that have joined.
struct Nccl {
    /// The communicator. NCCL writes to this place from a thread of its own while the processes join, so that it is never
    /// freed.
    communicator: &'static AtomicPtr<sys::ncclComm>,
    /// Whether the communicator was aborted, and is gone.
    is_aborted: bool,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Behind the last sum that was started.
    done: CudaEvent,
    /// To be started, in this order.
    waiting: VecDeque<Bucket>,
    /// Started, and perhaps not done.
    started: Vec<Bucket>,
    /// Whether the last one that was started is not behind `done` yet.
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
        // The primary context, which CubeCL takes too: what it allocates is memory here.
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
            waiting: VecDeque::new(),
            started: Vec::new(),
            is_starting: false,
        };
        let id = sys::ncclUniqueId {
            internal: id.map(u8::cast_signed),
        };
        let count = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        let mut config = config();
        // SAFETY: the device is current since its context was made. The place of the communicator lives for ever, and NCCL
        // copies id and settings before it returns.
        #[expect(unsafe_code, reason = "hands addresses to NCCL")]
        let begun = unsafe {
            sys::ncclCommInitRankConfig(
                communicator.as_ptr(),
                count(size),
                id,
                count(rank),
                &raw mut config,
            )
        };
        begun_by("ncclCommInitRankConfig", begun)?;
        Ok(joining)
    }

    /// The communicator, while there is one.
    fn communicator(&self) -> Result<sys::ncclComm_t, EngineError> {
        let communicator = self.communicator.load(Ordering::Acquire);
        match self.is_aborted || communicator.is_null() {
            true => Err(failed("it was given up before".to_owned())),
            false => Ok(communicator),
        }
    }

    /// Whether NCCL has done what the last call of it was to start.
    fn is_ready(&self) -> Result<bool, EngineError> {
        let communicator = self.communicator()?;
        // As a number: a newer NCCL may know errors that the enumeration lacks.
        let mut state = 0_u32;
        // SAFETY: the communicator was made by NCCL and not given up, and the state is as large as an enumeration of C.
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
        // SAFETY: both are device memory of as many f32 numbers, which the bucket holds in place until the sum is done. What
        // the device was handed before is done, since it was waited for; and what it is handed meanwhile neither writes the
        // one, of which the bucket holds a tensor, nor touches the other, which the caller leaves alone until the sum is
        // done. The communicator was made by NCCL and is not given up, and the stream belongs to its device.
        #[expect(unsafe_code, reason = "hands addresses to NCCL")]
        let begun = unsafe {
            sys::ncclAllReduce(
                bucket.own.address() as *const _,
                bucket.sum.address() as *mut _,
                bucket.own.numbers(),
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
    fn start(&mut self, bucket: Tensor<1>) -> Result<Tensor<1>, EngineError> {
        // Never in place: a tensor may share its memory with another one.
        let sum = Tensor::empty(bucket.dims(), &bucket.device());
        let bucket = Bucket {
            own: CudaMemory::of(bucket)?,
            sum: CudaMemory::of(sum.clone())?,
        };
        // Whatever writes the one, and whatever used the memory of the other before.
        bucket.own.wait()?;
        self.waiting.push_back(bucket);
        self.poll()?;
        Ok(sum)
    }

    fn poll(&mut self) -> Result<bool, EngineError> {
        self.context.bind_to_thread().map_err(of_cuda)?;
        loop {
            if !self.is_ready()? {
                return Ok(false);
            }
            // Only now is the sum on the stream.
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

    fn abort(&mut self) {
        let Ok(communicator) = self.communicator() else {
            return;
        };
        self.is_aborted = true;
        // SAFETY: the communicator was made by NCCL, and is handed to it for the last time. NCCL ends its kernels and threads
        // before it returns, so that the memory of the buckets may be let go.
        #[expect(unsafe_code, reason = "hands an address to NCCL")]
        let _failure = unsafe { sys::ncclCommAbort(communicator) };
        // There is nothing to be done about a failure of the abort: the job ends for another one, or has ended.
        self.waiting.clear();
        self.started.clear();
    }
}

impl Drop for Nccl {
    /// Not by `ncclCommDestroy`, which may wait for other processes. Sums that are done do not change by it.
    fn drop(&mut self) {
        self.abort();
    }
}

/// Settings of a communicator that does not block; all else is NCCL's choice. It says to be of the version that brought
/// them, so that later ones ignore what they have added.
fn config() -> sys::ncclConfig_t {
    const UNDEFINED: i32 = i32::MIN;
    sys::ncclConfig_t {
        size: size_of::<sys::ncclConfig_t>(),
        magic: 0xcafe_beef,
        version: FIRST.cast_unsigned(),
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}

fn failed(reason: String) -> EngineError {
    EngineError {
        library: "NCCL",
        reason,
    }
}

fn of_call(call: &str, result: ncclResult_t) -> EngineError {
    failed(format!("`{call}`: {}", meaning(result as u32)))
}

/// Whether a call that does not wait has begun its work, or done it.
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

/// What NCCL means by an error, and what it said last.
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
    // SAFETY: the communicator is not looked at. The text is null or ends with a zero, and stays until NCCL fails again.
    #[expect(unsafe_code, reason = "reads a string of C")]
    let last = unsafe {
        let last = sys::ncclGetLastError(ptr::null_mut());
        match last.is_null() {
            true => String::new(),
            false => CStr::from_ptr(last).to_string_lossy().trim().to_owned(),
        }
    };
    match last.is_empty() {
        true => format!("{known} ({error})"),
        false => format!("{known} ({error}): {last}"),
    }
}
