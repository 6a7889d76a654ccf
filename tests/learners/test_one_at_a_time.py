"""Learners whose methods wait for each other, whatever thread calls them."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import streamk.learners  # noqa: F401 (makes all learners known)
from streamk.learners.common.predictor import OneAtATime, Turns

TAKE_THE_LOCK = {
    *("aside", "promote", "roll_back"),
}
OF_OUTPUTS_OR_LABELS_ALONE = {
    *("choices", "prediction", "predictions", "probabilities", "weighted", "number"),
    *("check_labels", "check_some_labels"),
}
OF_THE_LEARNER_AROUND = {  # which holds its own lock meanwhile
    *("learn_checked", "learn_encoded", "decide_checked", "last_events", "learn_again"),
    *("grow", "rest", "wake"),
    *("begin", "close", "extend", "forget_factor", "keep_factor", "learn_points", "targets"),
}
BEFORE_THE_FIRST_EVENT = {
    *("begin", "drop", "go_on_with", "compile_rare_steps", "for_shards", "reopened"),
}
OF_OTHER_PROCESSES = {"merged"}


def kinds(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_each_public_method_waits_or_need_not() -> None:
    exempt = (
        TAKE_THE_LOCK
        | OF_OUTPUTS_OR_LABELS_ALONE
        | OF_THE_LEARNER_AROUND
        | BEFORE_THE_FIRST_EVENT
        | OF_OTHER_PROCESSES
    )
    found = set[str]()
    for kind in kinds(OneAtATime):
        if not kind.__module__.startswith("streamk."):
            continue  # of another test
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and not hasattr(method, "_waits"):
                found.add(name)
    assert found == exempt


def test_a_copy_of_a_lock_is_another_one() -> None:
    one: Any = Turns()
    with one.lock:
        again = pickle.loads(pickle.dumps(one))
        assert again.lock is not one.lock
