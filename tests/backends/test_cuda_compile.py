"""The kernels as CUDA's own compiler sees them, which needs no GPU.

NVRTC comes with CUDA, or by ``pip install 'streamk[cuda-compile]'``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamk.backends.cupy_backend.device import CUDA_OPTIONS, MODULES, THREADS, Variant, source

SINGLE, WIDE, DOUBLE = (False, False), (False, True), (True, True)
PLAIN = [Variant(*SINGLE, False), Variant(*DOUBLE, False)]
ALL = dict.fromkeys(MODULES, PLAIN) | {
    "features": [Variant(*types, on) for on in (False, True) for types in (SINGLE, WIDE, DOUBLE)],
    "local_kernels": PLAIN[:1],
}
"""Every variant that the backend launches."""
COMMON = {
    name: [variant for variant in found if variant[:2] == SINGLE] for name, found in ALL.items()
}


def _places() -> Iterator[Path]:
    """Files that may be NVRTC."""
    found = importlib.util.find_spec("nvidia")
    for packages in (found and found.submodule_search_locations) or ():
        for folder in ("cuda_nvrtc", "cu13"):
            yield from sorted(Path(packages, folder, "lib").glob("libnvrtc.so.*"))
    for root in (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if root:
            yield from sorted(Path(root, "lib64").glob("libnvrtc.so.*"))


@cache
def nvrtc() -> Any:
    for path in _places():
        if "alt" not in path.name:
            return ctypes.CDLL(str(path))
    pytest.skip("no NVRTC here: pip install 'streamk[cuda-compile]', or set CUDA_PATH")


def _text(get_size: Any, get: Any, program: Any) -> bytes:
    size = ctypes.c_size_t()
    assert get_size(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert get(program, buffer) == 0
    return buffer.raw


def compiled(module: str, variant: Variant, architecture: int) -> tuple[bytes, str]:
    """The machine code of a module, and what the assembler says of each kernel."""
    library, program = nvrtc(), ctypes.c_void_p()
    text = source(module).encode()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text, b"k.cu", 0, None, None) == 0
    options = [*CUDA_OPTIONS, *variant.macros, "--ptxas-options=-v"]
    options.append(f"--gpu-architecture=sm_{architecture}")
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), words)
    log = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).decode()
    assert not failed, log
    code = _text(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    "architecture", [75, *(pytest.param(n, marks=pytest.mark.nightly) for n in (80, 90))]
)
def test_every_kernel_compiles_and_fits_a_multiprocessor(module: str, architecture: int) -> None:
    count = ctypes.c_int()
    assert nvrtc().nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
    known = (ctypes.c_int * count.value)()
    assert nvrtc().nvrtcGetSupportedArchs(known) == 0
    if architecture not in known:
        pytest.skip(f"this NVRTC compiles for {min(known)} to {max(known)}")
    # Architectures differ in what the assembler does; one of them is tried with all variants.
    for variant in (ALL if architecture == 80 else COMMON)[module]:
        code, log = compiled(module, variant, architecture)
        assert all(kernel.encode() in code for kernel in MODULES[module])
        assert not re.search(r"\berror\b", log)
        registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
        assert len(registers) == len(MODULES[module])
        # A block must fit: 65,536 registers and 48 KiB of shared memory are there everywhere.
        assert max(registers) * THREADS <= 65536
        shared = [int(n) for n in re.findall(r"(\d+) bytes smem", log)]
        assert max(shared, default=0) <= 48 << 10
        # What is meant to stay in registers does: arrays in local memory would be kilobytes. The
        # neural tangent kernel's arc cosine takes some hundred bytes.
        stacks = [int(n) for n in re.findall(r"(\d+) bytes stack frame", log)]
        assert max(stacks, default=0) <= 256
