"""States as bytes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import safetensors.numpy

from streamk.packing import pack, unpack


def test_arrays_are_written_as_the_library_of_the_format_writes_them() -> None:
    rng, arrays = np.random.default_rng(0), {}
    for place, kind in enumerate(["?", *"bhiqBHIQefd"]):
        for rows in range(3):
            numbers = 50.0 * rng.normal(size=(rows, 3))
            arrays[f'é{rows} {place}"{kind}\n'] = np.abs(numbers).astype(kind)
    arrays["scalar"] = np.full((), 3.0, np.float32)
    data = pack(arrays)
    assert data == safetensors.numpy.save(arrays)
    assert pack({}) == safetensors.numpy.save({})
    for name, found in unpack(data, "here").items():
        assert (found.dtype, found.shape) == (arrays[name].dtype, arrays[name].shape)
        assert np.array_equal(found, arrays[name])


def test_arrays_may_lie_in_memory_in_any_way() -> None:
    plain = np.arange(12.0).reshape(3, 4)
    swapped = plain.astype(plain.dtype.newbyteorder("S"))
    for other in (np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2], swapped):
        assert pack({"a": other}) == pack({"a": plain})


def test_arrays_are_copied_once() -> None:
    arrays = {"a": np.zeros(1 << 20), "b": np.ones((1 << 10, 1 << 10), np.float32)}
    pack(arrays)
    tracemalloc.start()
    data = pack(arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.1 * len(data)
