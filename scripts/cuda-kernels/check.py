"""Compiles the CUDA C++ of the project's kernels with NVRTC: no GPU, no driver, no CUDA installation.

  cargo run --manifest-path scripts/cuda-kernels/Cargo.toml -- target/cuda-kernels
  pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl
  python scripts/cuda-kernels/check.py target/cuda-kernels

Fails if any kernel does not compile for any of the architectures.
"""

import ctypes
import importlib.util
import sys
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90")


def packages():
    """The folder of the nvidia-* packages."""
    return Path(importlib.util.find_spec("nvidia").submodule_search_locations[0])


def main(folder):
    root = packages()
    library = sorted(root.rglob("libnvrtc.so.*"))[0]
    headers = {path.parent for name in ("cuda_fp16.h", "cuda_runtime.h") for path in root.rglob(name)}
    headers |= {path.parents[2] for path in root.rglob("cuda/std/type_traits")}
    nvrtc = ctypes.CDLL(str(library))
    failed = []
    sources = sorted(Path(folder).glob("*.cu"))
    for source in sources:
        for architecture in ARCHITECTURES:
            options = [f"--gpu-architecture={architecture}", *(f"-I{path}" for path in sorted(headers))]
            log = compile_with(nvrtc, source.read_bytes(), options)
            if log is not None:
                failed.append(source.name)
                print(f"{source.name} {architecture}: {log}", file=sys.stderr)
    print(f"{len(sources)} kernels for {', '.join(ARCHITECTURES)}: {len(failed)} failures")
    return int(bool(failed) or not sources)


def compile_with(nvrtc, source, options):
    """None, or what the compiler says."""
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None):
        return "NVRTC made no program"
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if result else None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
