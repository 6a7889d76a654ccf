"""Memory that goes back to the system, and what is loaded without being needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamk.backends import memory

binding = pytest.importorskip("llvmlite.binding")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and takes it")

_LOADED = """
import sys
import numpy as np
from streamk.backends import memory
from streamk.learners import MultiKernel

X = np.random.default_rng(0).normal(size=(40, 2))
y = (X[:, 0] > 0.0).tolist()
one, other = MultiKernel(seed=0), MultiKernel(seed=0)
said = one.predict_then_learn_many(X, y).predictions
memory.give_back()
assert list(other.predict_then_learn_many(X, y).predictions) == list(said)
assert not any(name.startswith("scipy.linalg.") for name in sys.modules)
"""


_LINKED = """
import numpy as np
from streamk.backends.jit.compiling import compiling
from streamk.backends.jit.cache import Loaded

@compiling()
def inner(x):
    return x + 1.0

inner(1.0)
found = compiling()(inner.py_func)
found(1.0)
(result,) = found.overloads.values()
assert isinstance(result.library, Loaded), type(result.library)
assert result.library._shared_module is None

from numba import njit

@njit
def outer(x):
    return 2.0 * found(x)

assert outer(1.0) == 4.0
"""


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as line:  # noqa: PTH123
        return int(line.read().split()[1]) * 4096


def test_a_room_is_as_large_as_it_was_asked_for_and_can_be_written_to() -> None:
    for count in (0, 1, 1000, 600_000, 3 << 20):
        found = memory.room(count)
        assert found.shape == (count,)
        assert found.dtype == np.float32
        found[:] = 1.0
        assert found.sum(dtype=np.float64) == count


@linux
def test_a_large_room_takes_memory_as_it_is_written_to_and_gives_it_back() -> None:
    before = resident()
    found = memory.room(16 << 20)
    assert resident() - before < 8 << 20
    found[: 8 << 20] = 1.0
    assert resident() - before > 24 << 20
    del found
    assert resident() - before < 8 << 20


@linux
def test_instructions_of_a_library_that_are_dropped_come_again() -> None:
    (start, stop), *_ = memory._code_of("libllvmlite")
    assert stop > start
    for _ in range(2):
        memory.give_back()
        assert binding.llvm_version_info[0] > 0


def test_no_code_is_found_of_a_library_that_is_not_there() -> None:
    assert memory._code_of("no-such-library") == []


@pytest.mark.parametrize("text", [_LOADED, _LINKED], ids=["loaded", "linked"])
def test_functions_out_of_the_cache_do_with_less(text: str, tmp_path: object) -> None:
    file = f"{tmp_path}/module.py"
    with open(file, "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(text)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


_SHARED = """
import ctypes, threading
from streamk.backends import memory

memory.share_free()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
libc.malloc.argtypes = (ctypes.c_size_t,)
for _ in range(4):
    one = threading.Thread(target=lambda: libc.free(libc.malloc(100_000)))
    one.start()
    one.join()
libc.fopen.restype = ctypes.c_void_p
told = ctypes.c_void_p(libc.fopen(b"told.xml", b"w"))
libc.malloc_info(0, told)
libc.fclose(told)
assert open("told.xml").read().count("<heap ") == 1
"""


@linux
def test_threads_share_one_store_of_free_memory(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _SHARED], check=True, cwd=tmp_path)
