"""Compilation of the loops of an event in several processes, before they are needed.

Each process keeps what it has compiled in numba's cache, where the others find it. Should one fail,
nothing is lost but time: whoever needs a loop that is not there compiles it.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread
from typing import Any

import numba
from numba import types

from streamk.backends.first_use import FIRST_USE
from streamk.backends.jit.compiling import Compilable, Loop
from streamk.backends.numba_backend.centers import (
    _add,
    _expand,
    _expand_each,
    _follow,
    _lay,
    ask_one,
    learn_one,
)
from streamk.backends.numba_backend.cholesky import (
    _backward,
    _backward_narrow,
    _eliminate,
    _factor,
    _forward,
    _forward_narrow,
)
from streamk.backends.numba_backend.experts.event import LOOPS, STAGES
from streamk.backends.numba_backend.gradients import _sum_slopes
from streamk.backends.numba_backend.learning import _add_slopes, _missed_by, _probabilities_of
from streamk.backends.numba_backend.pairwise import _pairwise
from streamk.backends.numba_backend.scaling import (
    _bound_some,
    _scale_some,
    _standardize_some,
    leaves,
    place,
)

_INT, _FLOAT, _SINGLE = types.int64, types.float64, types.float32
_ROW, _ROWS, _NUMBERS = types.float64[::1], types.float64[:, ::1], types.int64[::1]
_SINGLES, _TILES = types.float32[:, ::1], types.float32[:, :, ::1]
_KERNEL = _INT, _FLOAT, _SINGLE
_FUNCTIONS = _ROW, _ROWS, _ROW
_SPLITS = _SINGLES, _ROW, types.int64[:, ::1]
_SUM = *_KERNEL, _TILES, _TILES
_SAY, _TO = (_ROW, _ROW, _FLOAT), (_ROWS, _ROWS)
_LEARN = _SINGLES, _ROW, _ROWS, _ROW, _ROW, *_SAY

_OF_ALL: list[Compilable] = [
    Loop(learn_one, (*_KERNEL, *_LEARN, _INT, _INT, _SINGLES, _ROW, *_TO, *(5 * [_FLOAT]), _ROW)),
    Loop(ask_one, (*_SUM, *_SUM, _TILES, _TILES, _SINGLES, _ROWS, *_SAY, _INT, _SINGLES, *_TO)),
    Loop(_pairwise, (_INT, _FLOAT, _FLOAT, _ROWS, _ROWS, _ROWS)),
    Loop(_pairwise, (*_KERNEL, _SINGLES, _SINGLES, _SINGLES)),
    Loop(_expand_each, (*_KERNEL, _SINGLES, _TILES, _SINGLES, _ROWS)),
    Loop(_expand, (*_KERNEL, _SINGLES, _TILES, _TILES, _ROWS)),
    Loop(_factor, (_TILES, _INT, _INT, _INT)),
    Loop(_forward_narrow, (_TILES, _INT, _TILES, _INT)),
    Loop(_backward_narrow, (_TILES, _INT, _TILES)),
    Loop(_eliminate, (_TILES, _INT, _INT, _TILES, _INT)),
    Loop(_follow, (_ROWS, _ROWS, *_FUNCTIONS, _INT, _ROWS)),
    Loop(_add, (_ROWS, _NUMBERS, _ROWS, _ROWS)),
    Loop(_lay, (_SINGLES, _NUMBERS, _TILES)),
    Loop(_scale_some, (_ROWS, *(5 * [_ROW]), _NUMBERS, _FLOAT)),
    Loop(_bound_some, (_ROWS, _ROW, _FLOAT, _SINGLES)),
    Loop(place, (_ROWS, *(5 * [_ROW]), _NUMBERS, _FLOAT, _ROWS, _FLOAT, *_SPLITS, _SINGLES)),
    Loop(leaves, (_ROWS, _ROW, types.int64[:, ::1], _NUMBERS)),
    Loop(_sum_slopes, (_INT, _ROW, *(4 * [_SINGLES]), types.float64[:, :, ::1])),
    Loop(_standardize_some, (_ROWS, _ROW, _ROW, _FLOAT)),
    Loop(_missed_by, (_ROWS, _ROW, types.boolean, *(5 * [_FLOAT]), _ROW)),
]
"""Loops that a feature machine among the experts calls for its first functions, of any task."""
_OF_CLASSES: list[Compilable] = [
    Loop(_probabilities_of, (_ROWS, _FLOAT, _FLOAT, _ROWS)),
    Loop(_add_slopes, (_ROWS, _ROW, _FLOAT, _FLOAT, _ROW)),
    Loop(_forward, (_TILES, _INT, _TILES, _INT)),
    Loop(_backward, (_TILES, _INT, _TILES)),
]
"""Those of classes, and of functions of five or more of them, which may come with any event."""

_MOST = 4
"""Processes at most, each of 300 MB: more cores may be there than a container has a share of."""
_WORK = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from streamk.backends.numba_backend.experts import ahead; ahead.work()"
)


def missing(task: str, *, with_feature_machine: bool) -> list[Compilable]:
    """Return what is in no cache of that which learning needs, the longest work first.

    Parameters
    ----------
    task : str
    with_feature_machine : bool
        Whether there is one among the experts.
    """
    wanted = _all(task) if with_feature_machine else [*STAGES.values(), *LOOPS[task]]
    return [one for one in wanted if not one.is_cached]


@contextmanager
def compiling(wanted: Iterable[Compilable], task: str) -> Iterator[None]:
    """Compile loops of a task while the body runs, in processes; all are ready at the end.

    The 200 MB that a compiler takes are theirs, and go with them.
    """
    wanted = list(wanted)
    left = deque(wanted)
    helpers: list[subprocess.Popen[str]] = []
    listeners: list[Thread] = []
    try:
        # In a program with Python inside there is no interpreter to be begun; elsewhere no process
        # more may be allowed.
        with suppress(OSError):
            for _ in range(min(len(left), _MOST, _cores()) if sys.executable else 0):
                helpers.append(_worker())
                listeners.append(Thread(target=_distribute, args=[helpers[-1], left, task]))
                listeners[-1].start()
        yield
        for helper in helpers:
            helper.wait()
        for one in wanted:
            if not one.is_cached:  # since helpers have failed
                with FIRST_USE.loop(one.name):
                    one.compile()
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
        for listener in listeners:
            listener.join()


def addresses() -> dict[int, int]:
    """Return where the stages are by their places in a table, compiled here unless they are cached.

    No process is begun for that: this is for whoever just learns an event.
    """
    count = sum(not stage.is_cached for stage in STAGES.values())
    with FIRST_USE.expecting(count) if count else nullcontext():
        return {place: stage.address for place, stage in STAGES.items()}


def _all(task: str) -> list[Compilable]:
    return [*STAGES.values(), *LOOPS[task], *_of_feature_machine(task)]


def _of_feature_machine(task: str) -> list[Compilable]:
    """Return the loops of its first functions."""
    return _OF_ALL if task == "regression" else [*_OF_ALL, *_OF_CLASSES]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _worker() -> subprocess.Popen[str]:
    environment = dict(os.environ)
    config: Any = numba.config
    if config.CACHE_DIR:
        environment["NUMBA_CACHE_DIR"] = config.CACHE_DIR
    return subprocess.Popen(
        [sys.executable, "-c", _WORK, json.dumps(sys.path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    )


def _distribute(helper: subprocess.Popen[str], left: deque[Compilable], task: str) -> None:
    """Give a process one after another of what is left, the next when it has said that it is done.

    It says so of the first when it is ready itself.
    """
    orders, answers = helper.stdin, helper.stdout
    assert orders is not None
    assert answers is not None
    with suppress(BrokenPipeError), orders, answers:
        for n, _ in enumerate(answers):
            if n:
                FIRST_USE.ended()
            try:
                one = left.popleft()
            except IndexError:
                break
            orders.write(f"{task} {_all(task).index(one)}\n")


def work() -> None:
    """Compile what is asked for on standard input, and print a line when it is in the cache."""
    # A compiler's objects mostly stay: to look for garbage as often as Python does takes a tenth of
    # its time, and never would take 100 MB more.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    _report_done()
    for line in sys.stdin:
        task, place = line.split()
        _all(task)[int(place)].compile()
        _report_done()


def _report_done() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()
