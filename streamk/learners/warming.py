"""Getting ready for the first event."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any

import numpy as np

from streamk.backends import loops
from streamk.backends.first_use import FIRST_USE
from streamk.learners.common.base import Learner
from streamk.learners.doubly_stochastic.doubly_stochastic import DoublyStochastic
from streamk.learners.eigenpro.eigenpro import EigenPro
from streamk.learners.kernel_ridge import OnlineKernelRidge
from streamk.learners.meka.streaming import StreamingMeka
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.nystrom import OnlineNystrom
from streamk.learners.registry import create
from streamk.learners.rfm.feature_machine import FeatureMachine

_X = np.linspace(-1.0, 1.0, 18).reshape(9, 2)
# Lists: a column of an array, whose numbers lie apart, would have loops of its own.
_TWO, _THREE, _NUMBERS = [*"ababababa"], [*"abcabcabc"], _X[:, 0].tolist()
_LABELLED = (("classification", _TWO), ("classification", _THREE), ("regression", _NUMBERS))
_OTHERS = 1
"""Loops that many kernels need for the first events, besides those of learning."""


@contextmanager
def preparing(model: Learner) -> Iterator[None]:
    """Compile the loops for a model's first events, in processes beside this one.

    That takes some twenty seconds the first time on a machine, and nothing once it is in numba's
    cache. What is done inside is done in the meantime; at the end all is ready.
    """
    models = [each.innermost for each in (model.models.values() or (model,))]
    many = [one for one in models if one.mixes_experts]
    task = "classification" if model.is_classifier else "regression"
    with_feature_machine = any(
        options["type"] == FeatureMachine.TYPE for one in many for options in one.external_experts
    )
    with _compiling(task, with_feature_machine=with_feature_machine) if many else nullcontext():
        yield


@contextmanager
def _compiling(task: str, *, with_feature_machine: bool) -> Iterator[None]:
    ahead = loops.ahead
    missing = ahead.missing(task, with_feature_machine=with_feature_machine)
    if not missing:
        yield
        return
    with FIRST_USE.expecting(len(missing) + _OTHERS):
        with ahead.compiling(missing, task):
            yield
            model = create(MultiKernel.TYPE, task=task, columns=("a", "b"), external_experts=())
        model.predict_then_learn_many(_X, _TWO if model.is_classifier else _NUMBERS)


def warm_up() -> None:
    """Do `streamk.warm_up`."""
    with FIRST_USE.shown_on(sys.stderr):
        with _compiling("classification", with_feature_machine=True):
            pass
        for task, y in _LABELLED:
            for model in _models(task):
                _rehearse(model, y)


def _rehearse(model: Learner, y: Sequence[Any]) -> None:
    """Learn and predict a few events, one and several at a time."""
    model.learn_many(_X, y)
    model.predict_many(_X)
    model.predict_then_learn_many(_X, y)
    # Single events have loops of their own, once all features are in use.
    model.learn_one(_X[0], y[0])
    model.predict_one(_X[0])
    model.compile_rare_steps()


def _models(task: str) -> Iterator[Learner]:
    yield create(MultiKernel.TYPE, task=task)
    for sampler, batch_size in product(("iid", "hadamard"), (1, 8)):
        options: dict[str, Any] = {"block_size": 256, "max_features": 256}
        options |= {"sampler": sampler, "batch_size": batch_size}
        yield create(DoublyStochastic.TYPE, task=task, **options)
    for optimizer in ("sgd", "newton"):
        yield create(OnlineNystrom.TYPE, task=task, optimizer=optimizer, max_landmarks=4)
        options = {"optimizer": optimizer, "rank": 2, "n_clusters": 2, "first": 4, "swap_delay": 1}
        yield create(StreamingMeka.TYPE, task=task, **options)
    kept = create(OnlineKernelRidge.TYPE, task=task, max_centers=64)
    y = _NUMBERS if task == "regression" else _TWO
    kept.learn_many(np.tile(_X, (16, 1)), y * 16)  # until the oldest events go
    yield kept
    yield create(EigenPro.TYPE, task=task, n_centers=2, batch_size=2)
    machine = create(FeatureMachine.TYPE, task=task, buffer_size=64, first=64, swap_delay=64)
    machine.learn_many(np.tile(_X, (32, 1)), y * 32)  # until the first metric is there
    yield machine
