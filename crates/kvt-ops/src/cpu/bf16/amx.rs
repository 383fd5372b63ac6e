//! Products of tiles with AMX, the matrix instructions of Intel's CPUs since Sapphire Rapids.
//!
//! `tdpbf16ps` adds the product of 16 rows of 16 pairs and 16 pairs of 16 columns to 16 x 16 sums in f32: the work of 256 `vdpbf16ps`.
//! Four such sums are as many rows and columns as a tile here has. The instructions have no functions in stable Rust, hence assembly.
//! Linux gives a process their registers if it asks for them.

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::LazyLock;

use super::pack::{Line, Sums, WIDTH};

/// Rows of a tile.
pub(super) const HEIGHT: usize = 32;

/// Pairs of numbers per step: rows and columns have a multiple of them.
pub(super) const PAIRS: usize = 16;

/// The rows of a tile, of as many pairs as a step has.
pub(super) type Step = [Line; HEIGHT];

/// Whether this CPU has the instructions, and the system lets this process use them.
pub(super) fn is_permitted() -> bool {
    static PERMITTED: LazyLock<bool> = LazyLock::new(|| has_instructions() && ask());
    *PERMITTED
}

/// AMX-BF16 and AMX-TILE, and the AVX-512 that every such CPU has.
fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const BITS: u32 = 1 << 22 | 1 << 24;
    let has_tiles = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & BITS == BITS;
    has_tiles && is_x86_feature_detected!("avx512f")
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call")]
fn ask() -> bool {
    /// `ARCH_REQ_XCOMP_PERM`, and the number of the tiles' state.
    const REQUEST: [libc::c_ulong; 2] = [0x1023, 18];
    // SAFETY: the call takes two numbers, and no pointer.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST[0], REQUEST[1]) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn ask() -> bool {
    false
}

/// `ldtilecfg`'s format: all eight registers hold 16 rows of 64 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Config {
    palette: u8,
    others: [u8; 15],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Registers that are released.
const NONE: Config = Config {
    palette: 0,
    others: [0; 15],
    row_bytes: [0; 16],
    rows: [0; 16],
};

static FULL: Config = Config {
    palette: 1,
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    ..NONE
};

/// This thread's registers, ready for products until it is dropped.
pub(super) struct Tiles {
    /// How they were configured before, by a caller further up that continues to use them.
    before: Config,
    on_this_thread: PhantomData<*const ()>,
}

impl Tiles {
    /// The registers of this thread, if they are [permitted](is_permitted).
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn of_this_thread() -> Option<Self> {
        if !is_permitted() {
            return None;
        }
        let mut before = NONE;
        // SAFETY: the instructions are permitted, the configuration is a valid one, and the former one has 64 bytes of room.
        unsafe {
            asm!(
                "sttilecfg [{before}]",
                "ldtilecfg [{full}]",
                before = in(reg) &raw mut before,
                full = in(reg) &raw const FULL,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
        Some(Self {
            before,
            on_this_thread: PhantomData,
        })
    }

    /// The sums of products of 32 rows, step by step, and a panel of columns, `[pair, column]`.
    ///
    /// # Panics
    /// If there is no step, or another number of pairs in the columns.
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn product(&self, rows: &[Step], columns: &[[u32; WIDTH]], sums: &mut Sums<HEIGHT>) {
        assert!(
            !rows.is_empty() && rows.len() * PAIRS == columns.len(),
            "a tile that does not fit"
        );
        // SAFETY: `Tiles` configured the registers. Each step reads 32 rows of 64 bytes, and 16 rows of columns of 128, all within the
        // slices; the sums are 32 rows of 128 bytes.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{rows} + {line}]",
                "tileloadd tmm6, [{columns} + {width}]",
                "tileloadd tmm5, [{rows} + {line} + 1024]",
                "tileloadd tmm7, [{columns} + {width} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {rows}, 2048",
                "add {columns}, 2048",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {width}], tmm0",
                "tilestored [{sums} + {width} + 64], tmm1",
                "tilestored [{sums} + {width} + 2048], tmm2",
                "tilestored [{sums} + {width} + 2112], tmm3",
                rows = inout(reg) rows.as_ptr() => _,
                line = in(reg) size_of::<Line>(),
                columns = inout(reg) columns.as_ptr() => _,
                width = in(reg) WIDTH * size_of::<u32>(),
                steps = inout(reg) rows.len() => _,
                sums = in(reg) sums,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Tiles {
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    fn drop(&mut self) {
        // SAFETY: the instructions are permitted, and the configuration was this thread's. That of no registers releases them, so that
        // they need not be saved when the thread is switched.
        unsafe {
            asm!(
                "ldtilecfg [{}]",
                in(reg) &raw const self.before,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The palette of this thread's registers: 0 where they are released.
    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    fn palette() -> u8 {
        let mut config = NONE;
        // SAFETY: the registers are permitted; the instruction writes 64 bytes.
        unsafe {
            asm!("sttilecfg [{}]", in(reg) &raw mut config, options(nostack, preserves_flags));
        }
        config.palette
    }

    fn product(tiles: &Tiles, steps: usize, pairs: usize) -> bool {
        let run = || {
            let rows = vec![[Line::default(); HEIGHT]; steps];
            let columns = vec![[0; WIDTH]; pairs];
            tiles.product(&rows, &columns, &mut Sums([[1.0; WIDTH]; HEIGHT]));
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
    }

    #[test]
    fn registers_are_released_and_tiles_must_fit() {
        if !is_permitted() {
            return kvt_testing::skipped("the CPU has no AMX");
        }
        assert_eq!(palette(), 0);
        if let Some(outer) = Tiles::of_this_thread() {
            drop(Tiles::of_this_thread());
            assert!(product(&outer, 2, 32), "registers of an outer one");
            for (steps, pairs) in [(0, 0), (1, 15), (1, 32), (2, 16), (2, 31)] {
                assert!(!product(&outer, steps, pairs), "{steps} {pairs}");
            }
            assert_eq!(palette(), 1);
        }
        assert_eq!(palette(), 0);
    }
}
