"""A device on the host: the kernels of the CuPy backend, compiled by the system's C compiler.

It runs every block of a grid and every thread of a block in loops, and is stricter than a GPU:

- an argument of another type than the kernel's text declares is refused;
- its arrays do not mix with NumPy's, as CuPy's do not;
- shared memory, registers and new arrays begin as NaN, and what lies around an array is checked
  after every launch, so reading or writing beside it is seen;
- blocks and threads may run from the last to the first, so a result that depends on their order
  is seen, too.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from streamk.backends import Backend
from streamk.backends.cupy_backend.device import Variant, source
from streamk.backends.cupy_backend.functions import DeviceBackend

OPTIONS = ("-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing")
GUARD = 64
"""Numbers before and after each new array that no kernel may touch."""


def compiler() -> str | None:
    """The system's C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class HostArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the device: NumPy's, which only the device's functions take."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed; use get")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return _apply(function, inputs, options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if callable(found):
            return lambda *inputs, **options: _apply(found, inputs, options)
        return _wrapped(found)

    def __len__(self) -> int:
        return len(self.inner)

    def __bool__(self) -> bool:
        return bool(self.inner)

    def __float__(self) -> float:
        return float(self.inner)

    def __getitem__(self, key: Any) -> Any:
        return _apply(self.inner.__getitem__, (key,), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        _apply(self.inner.__setitem__, (key, value), {})


def _plain(value: Any) -> Any:
    if isinstance(value, HostArray):
        return value.inner
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("an array of the host is not on the device; use put")
    return value


def _wrapped(value: Any) -> Any:
    # A number of CuPy's stays on the device.
    return HostArray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _apply(function: Any, inputs: Any, options: Any) -> Any:
    options = {name: _plain(value) for name, value in options.items()}
    return _wrapped(function(*map(_plain, inputs), **options))


class _Functions:
    """What stands for the module `cupy`: NumPy's functions on the device's arrays."""

    def __init__(self, device: HostDevice) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *inputs, **options: _apply(found, inputs, options)

    def asarray(self, value: Any, dtype: Any = None) -> HostArray:
        return value if isinstance(value, HostArray) else HostArray(np.array(value, dtype))

    def empty(self, shape: Any, dtype: Any = np.float64) -> HostArray:
        return self._device.allocate(shape, dtype)

    def zeros(self, shape: Any, dtype: Any = np.float64) -> HostArray:
        array = self._device.allocate(shape, dtype)
        array[...] = 0
        return array


class HostDevice:
    """Runs kernels on the host, in either order."""

    def __init__(self, *, backwards: bool = False) -> None:
        self.xp: Any = _Functions(self)
        self._backwards = backwards
        self._guarded: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def allocate(self, shape: Any, dtype: Any) -> HostArray:
        """A new array of bytes that are no number, with as many around it."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        bytes_, edge = int(np.prod(shape)) * np.dtype(dtype).itemsize, 8 * GUARD
        memory = np.full(bytes_ + 2 * edge, 0xFF, np.uint8)
        self._guarded[id(memory)] = memory
        return HostArray(memory[edge : edge + bytes_].view(dtype).reshape(shape))

    def put(self, array: Any) -> HostArray:
        new = self.allocate(array.shape, array.dtype)
        new.inner[...] = array
        return new

    def get(self, array: Any) -> Any:
        assert isinstance(array, HostArray), "what comes back must have been on the device"
        return array.inner.copy()

    def fetch(self, array: Any) -> Callable[[], Any]:
        value = self.get(array)
        return lambda: value

    def current(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, module: str, kernel: str, variant: Variant, grid: tuple[int, ...], *arguments: Any
    ) -> None:
        given = [as_argument(_plain(argument)) for argument in arguments]
        declared = parameters(module)[kernel]
        assert len(given) == len(declared), f"{kernel} takes {declared}"
        values = [_as_c(value, kind, variant) for value, kind in zip(given, declared, strict=True)]
        library = _library(module, variant)
        run = getattr(library, kernel)
        run.restype = None
        sizes = (*grid, 1, 1)[:3]
        assert all(size > 0 for size in sizes), f"no grid: {grid}"
        assert max(sizes[1:]) <= 0xFFFF, f"too large a grid: {grid}"
        places = [range(size)[:: -1 if self._backwards else 1] for size in sizes]
        for place in itertools.product(*places):
            library.at_block(*place, int(self._backwards))
            run(*values)
        for value in given:
            self._check(value)

    def _check(self, array: Any) -> None:
        memory = self._guarded.get(id(getattr(array, "base", None)))
        if memory is not None:
            edges = (memory[: 8 * GUARD], memory[-8 * GUARD :])
            assert all((edge == 0xFF).all() for edge in edges), "written beside an array"


def as_argument(value: Any) -> Any:
    """A kernel's argument as CuPy passes it."""
    if value is None:
        return np.uint64(0)
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, int):
        assert not isinstance(value, bool), "CuPy passes one byte"
        return np.int64(value)
    return value


def _as_c(value: Any, kind: str, variant: Variant) -> Any:
    """A ctypes value of the type declared, which the one given must have."""
    if not kind.endswith("*"):
        scalars = {
            "whole": (np.int64, ctypes.c_int64),
            "double": (np.float64, ctypes.c_double),
            "word64": (np.uint64, ctypes.c_uint64),
        }
        expected, convert = scalars[kind]
        assert type(value) is expected, f"{value!r} given for a {kind}"
        return convert(value.item())
    if isinstance(value, np.uint64):
        assert value == 0, "only no array is a number"
        return ctypes.c_void_p(0)
    types = {
        "real": np.float64 if variant.double else np.float32,
        "phase": np.float64 if variant.wide else np.float32,
        "double": np.float64,
        "word64": np.uint64,
        "whole": np.int64,
        "int": np.int32,
    }
    assert value.dtype == types[kind.rstrip("*")], f"{value.dtype} given for {kind}"
    return ctypes.c_void_p(value.ctypes.data)


@cache
def parameters(module: str) -> dict[str, list[str]]:
    """The types of each kernel's parameters, as the text declares them."""
    text = source(module)
    basis = re.search(r"#define BASIS(.*?[^\\])\n", text, re.DOTALL)
    found = {}
    for name, list_ in re.findall(r"^KERNEL (\w+)\((.*?)\)\n\{", text, re.DOTALL | re.MULTILINE):
        if basis:
            list_ = list_.replace("BASIS", basis.group(1).replace("\\", ""))
        declarations = [declaration.strip() for declaration in list_.split(",")]
        found[name] = [_type_of(declaration) for declaration in declarations]
    return found


def _type_of(declaration: str) -> str:
    words = declaration.replace("const ", "").replace("__restrict__", "").replace("*", " * ")
    first, *rest = words.split()
    return first + "*" * rest.count("*")


@cache
def _folder() -> Path:
    import atexit
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="streamk-kernels-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def _library(module: str, variant: Variant) -> Any:
    found = compiler()
    assert found is not None
    name = _folder() / f"{module}-{''.join(str(int(on)) for on in variant)}"
    text = name.with_suffix(".c")
    text.write_text(source(module), encoding="utf-8")
    command = [found, *OPTIONS, *variant.macros, str(text), "-o", f"{name}.so", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(f"{name}.so")


def host_backend(*, backwards: bool = False) -> Backend:
    """The CuPy backend's own functions, on the host."""
    return DeviceBackend(HostDevice(backwards=backwards))
