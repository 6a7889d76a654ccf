"""What was compiled is compiled again where any file that it was made from has changed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FEATURES = """
import numpy as np
from streamk.features import RandomFeatures
from streamk.kernels import Gaussian
print(RandomFeatures(Gaussian(), seed=1).transform([[0.5, -0.25]], 0, 3)[0].tolist())
"""


def features(root, cache):
    environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", FEATURES],
        env=environment, cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def test_a_change_of_another_file_is_not_missed(tmp_path):
    shutil.copytree(ROOT / "streamk", tmp_path / "streamk", ignore=lambda *_: ["__pycache__"])
    before = features(tmp_path, tmp_path / "cache")
    assert features(tmp_path, tmp_path / "cache") == before
    vectors = tmp_path / "streamk" / "backends" / "jit" / "vectors.py"
    text = vectors.read_text(encoding="utf-8")
    assert text.count("0.999999225") == 1
    vectors.write_text(text.replace("0.999999225", "0.5"), encoding="utf-8")
    assert features(tmp_path, tmp_path / "cache") != before


def test_another_process_finds_what_was_compiled(tmp_path):
    """Also where the same files are of another time, as after a checkout."""
    package, cache = tmp_path / "streamk", tmp_path / "cache"
    shutil.copytree(ROOT / "streamk", package, ignore=lambda *_: ["__pycache__"])

    def compiled():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}

    features(tmp_path, cache)
    before = compiled()
    assert before
    for path in package.rglob("*.py"):
        os.utime(path, (1.6e9, 1.6e9))
    features(tmp_path, cache)
    assert compiled() == before


def test_files_in_folders_and_beside_count_too():
    from streamk.backends.jit.cache import _STAMP

    assert {"lanes.py", "vectors.py", "exponential.py", "banks.py", "pool_arrays.py"} <= {
        name for name, _ in _STAMP
    }


def test_no_function_takes_over_its_callers_arithmetic():
    # Its results would depend on whether Python or another function had it compiled first.
    from streamk.backends.jit.compiling import compiled, exact

    assert exact(lambda x: x).targetoptions["fastmath"] is False
    assert compiled(lambda x: x).targetoptions["fastmath"] == {"contract"}


def test_numba_has_what_is_changed_in_it():
    """Names that numba does not promise; in another version they are to be looked at again."""
    from numba.core import imputils
    from numba.core.caching import Cache, CompileResultCacheImpl, IndexDataCacheFile
    from numba.core.codegen import JITCodeLibrary, JitEngine
    from numba.core.datamodel import registry
    from numba.core.runtime.nrt import rtsys
    from numba.core.typing import templates

    from streamk.backends.jit import cache, parts

    for kind in (
        cache.Loaded,
        parts.CompiledPart,
        parts._PartLibrary,
        parts.PartCompiler,
    ):
        hooks = {name for name in vars(kind) if name == "__call__" or not name.startswith("__")}
        assert hooks - {"load"} <= set(dir(kind.__base__)), kind
    assert "_source_stamp" in vars(IndexDataCacheFile("", "one", "stamp"))
    assert {"load_overload", "_load_overload"} <= vars(Cache).keys()
    assert {"reduce", "rebuild"} <= vars(CompileResultCacheImpl).keys()
    assert {"enable_object_caching", "_set_compiled_object"} <= set(dir(JITCodeLibrary))
    assert JitEngine(None)._defined_symbols == set()
    assert callable(rtsys.initialize)
    assert callable(registry.default_manager.register)
    assert callable(templates.builtin_registry.register_global)
    assert callable(imputils.builtin_registry.lower)
    assert hasattr(templates.AbstractTemplate, "prefer_literal")


LINKED = """
import sys
import numpy as np
from numba import njit
from streamk.backends.numba_backend.centers import _lay as lay

X, slots = np.arange(6.0).reshape(3, 2), np.array([2, 0, 1])

def twice(X, slots, laid):
    lay(X, slots, laid)
    laid *= 2

def laid(function):
    found = np.zeros((1, 2, 32))
    function(X, slots, found)
    return found

alone = laid(lay)
print("scipy.linalg" in sys.modules)
assert np.array_equal(laid(njit(twice)), 2 * alone)
print([*lay.stats.cache_hits.values()])
"""


def test_what_comes_from_the_cache_is_linked_to_what_is_compiled(tmp_path):
    """And until then nothing is loaded that only compilation needs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.check_output([sys.executable, "-c", LINKED], env=environment, text=True)
        for _ in range(2)
    )
    assert first == "True\n[]\n"
    assert second == "False\n[1]\n"


# --- what is learned does not depend on whether the loops were compiled just now or l -------------


_LEARN = """
import hashlib
import numpy as np
from streamk.learners import MultiKernel

rng = np.random.default_rng(0)
digest = hashlib.sha256()
for task in ("classification", "regression"):
    X = rng.standard_normal((200, 5))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(200)
    labels = y.tolist() if task == "regression" else (y > 0).tolist()
    model = MultiKernel(task=task, seed=1)
    for x, label in zip(X, labels):
        model.decision_one(x)
        model.learn_one(x, label)
    for name, array in sorted(model.state().arrays.items()):
        digest.update(name.encode() + array.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.nightly
def test_a_process_that_compiles_learns_what_the_next_one_does(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _LEARN]
    first, second = (subprocess.check_output(command, env=env, text=True) for _ in range(2))
    assert first == second


_SCALARS = {"zero", "_ZERO"}
_DECORATORS = {
    "part", "compiled", "exact", "exact_part", "fast", "called", "called_briefly", "ordered",
    "short",
}  # fmt: skip


def _copies_by_slices(tree: ast.AST) -> Iterator[int]:
    """Yield the lines on which a slice becomes anything but a number."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        sliced = (
            isinstance(part, ast.Slice)
            for target in node.targets
            if isinstance(target, ast.Subscript)
            for part in ast.walk(target.slice)
        )
        value = node.value
        is_number = isinstance(value, ast.Constant) or ast.unparse(value) in _SCALARS
        if any(sliced) and not is_number:
            yield node.lineno


def test_no_array_is_copied_by_slices() -> None:
    """It compiles seconds of a message; `compiling.copy` does not."""
    found = [
        f"{path.name}:{line}"
        for path in (ROOT / "streamk/backends/numba_backend").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and any(ast.unparse(one).split("(")[0] in _DECORATORS for one in function.decorator_list)
        for line in _copies_by_slices(function)
    ]
    assert found == []
