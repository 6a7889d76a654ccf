"""What every learner answers, by the loops that are compiled for it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from learners_kit import ANSWERS, VARIANTS, answers, has_answers

from streamk.learners import MultiKernel


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if variant.nightly else ())
        for name, variant in VARIANTS.items()
        if has_answers(variant)
    ],
)
def test_its_answers_stay_what_they_are(name: str) -> None:
    """No oracle, but what a change that is not meant to change any answer must keep.

    Processors round differently, and what learns from itself makes more of that.
    """
    expected = np.array(json.loads(ANSWERS.read_text(encoding="utf-8"))[name], float)
    found = np.array(answers(VARIANTS[name]), float)
    part = 2e-2 if isinstance(VARIANTS[name](), MultiKernel) else 5e-3
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.nanstd(expected))
