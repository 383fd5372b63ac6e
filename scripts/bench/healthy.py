"""What makes PyTorch fast, and does not come by itself: `environment` is that of a process with some of it.

  tf32           on a GPU, matrix products of f32 numbers are made of 10 bits of their fractions, as those of Burn may be
  tuned          MKL uses its fastest instructions on processors of other makers too, glibc keeps freed memory, AdamW is fused
  channels-last  images and convolutions with the channels last
  compile        `torch.compile`

MKL asks its own function which maker the processor is of. The preloaded library, one line of C, answers for it.
"""

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
# Large blocks stay with the process, instead of being mapped, cleared and unmapped in every step.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**28),
}


def preloaded(folder):
    """The library that answers for MKL, or None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source, library = Path(folder) / "maker.c", Path(folder) / "maker.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def can_compile():
    """Whether `torch.compile` finds the C++ compiler that it needs on a CPU."""
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def environment(options, library, threads):
    """The environment of a process with these options."""
    found = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if "tuned" in options:
        found |= ALLOCATOR
        if library is not None:
            found["LD_PRELOAD"] = ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
    return found


def option_sets(what, device):
    """The sets of options to try, the empty one first."""
    if device == "cuda":
        return [(), ("tf32",), ("tf32", "tuned"), ("tf32", "tuned", "compile")]
    sets = [(), ("tuned",)]
    if what != "attention":
        sets.append(("tuned", "channels-last"))
    if can_compile():
        sets.append(("tuned", "compile"))
    return sets
