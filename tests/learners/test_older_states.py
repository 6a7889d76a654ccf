"""States that an older streamk has written open, and go on as they would have there.

``tests/older_states`` holds a state of each learner after 120 events, as it was written before the
modules were moved and their words changed, with its predictions for the next 20 events, and for
another 20 after it has learned those. Files of this kind are added, never written anew.
"""

from __future__ import annotations

import io
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import state_fuzz

from streamk.learners.registry import from_state
from streamk.state import State

FILES = sorted((Path(__file__).parents[1] / "older_states").glob("*.npz.xz"))
TASKS = {name.replace(" ", "-"): task for name, (task, _) in state_fuzz.LEARNERS.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_an_older_state_opens_and_goes_on(path):
    name = path.name.partition(".")[0]
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as file:
        held = dict(file)
    header = json.loads(held.pop("header").tobytes())
    before, after = held.pop("before"), held.pop("after")
    arrays = {key.removeprefix("array."): array for key, array in held.items()}
    model = from_state(State(header, arrays))
    predict = model.predict_proba_many if model.is_classifier else model.predict_many
    X, y = state_fuzz.events(160)

    # Not the bits: exponentials and sums differ by a last place between machines.
    np.testing.assert_allclose(predict(X[120:140]), before, rtol=1e-6, atol=1e-7)
    model.learn_many(X[120:140], state_fuzz.labels(TASKS[name], y)[120:140])
    np.testing.assert_allclose(predict(X[140:]), after, rtol=1e-5, atol=1e-6)


def test_there_is_a_state_of_each_learner():
    kinds = {path.name.partition(".")[0] for path in FILES}
    assert {"multi-kernel-two", "doubly-stochastic", "online-nystrom", "streaming-meka"} <= kinds
