"""A checkpoint that was made by another command line: the option that differs is named."""

from __future__ import annotations

import copy
import pickle

import pytest

from streamk.cli.run import told_by_options
from streamk.engine.recovery.job import FIRST_MODEL, AnotherJob
from streamk.errors import StateError


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("model type", "--model"),
        ("model task", "--task"),
        ("model external_experts.0.n_centers", "--expert"),
        ("model kernel.bandwidth", "--set"),
        ("max_skew", "--max-skew"),
        ("labels", "--labels"),
        ("delimiter", "SOURCE"),
    ],
)
def test_another_option_is_named_as_it_is_given(name: str, flag: str) -> None:
    said = f"^{flag}: the checkpoint state/0 was made with {name}='a', but this run has 'b';"
    with pytest.raises(StateError, match=said), told_by_options():
        raise AnotherJob("state/0", name, "a", "b")


def test_what_is_no_option_is_told_by_the_engine() -> None:
    error = AnotherJob("state/0", FIRST_MODEL, {}, {})
    said = "^the checkpoint state/0 began with another model of the same options"
    with pytest.raises(AnotherJob, match=said), told_by_options():
        raise error


def test_what_the_engine_found_can_be_pickled_and_copied() -> None:
    error = AnotherJob("state/0", "label", "y", 1)
    error.add_note("of the first job")
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is AnotherJob
        assert str(same) == str(error)
        assert vars(same) == vars(error)
