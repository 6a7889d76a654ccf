"""Copies that the benchmarks learn: each event once a pass, moved, the same however it is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.copies import Copies


def images(n: int = 40, height: int = 4, width: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(1, 9, (n, height * width)).astype(float), rng.integers(0, 3, n)


def test_without_options_each_pass_has_every_event_once() -> None:
    X, y = images(300)
    Z, labels = Copies(X, y).take(600)
    for some in (slice(0, 300), slice(300, 600)):
        order = np.lexsort(Z[some].T)
        np.testing.assert_array_equal(Z[some][order], X[np.lexsort(X.T)])
        assert sorted(labels[some]) == sorted(y)
    assert not np.array_equal(Z[:300], Z[300:])


@pytest.mark.parametrize("step", [1, 7, 256])
def test_a_copy_depends_on_its_position_alone(step: int) -> None:
    options: dict[str, Any] = {"noise": 0.3, "shift": 1, "width": 5, "seed": 3}
    whole, labels = Copies(*images(), **options).take(7 * 256)
    again = Copies(*images(), **options)
    parts = [again.take(step) for _ in range(7 * 256 // step)]
    np.testing.assert_array_equal(np.concatenate([X for X, _ in parts]), whole)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), labels)
    other, _ = Copies(*images(), **{**options, "seed": 4}).take(7 * 256)
    assert not np.array_equal(whole, other)


def test_images_move_and_zeros_come_in() -> None:
    image = np.arange(1.0, 21.0).reshape(4, 5)
    Z, _ = Copies(image.reshape(1, 20), np.zeros(1), shift=2, width=5).take(400)
    expected = set()
    for down in range(-2, 3):
        for right in range(-2, 3):
            moved = np.zeros_like(image)
            for i in range(max(0, down), min(4, 4 + down)):
                for j in range(max(0, right), min(5, 5 + right)):
                    moved[i, j] = image[i - down, j - right]
            expected.add(moved.tobytes())
    assert {one.tobytes() for one in Z} == expected


def test_noise_is_in_units_of_the_columns() -> None:
    X = np.column_stack([np.arange(100.0), np.zeros(100), 50.0 * np.arange(100.0)])
    Z, labels = Copies(X, np.arange(100), noise=0.5).take(20_000)
    noise = Z - X[labels]
    assert (noise[:, 1] == 0).all()
    np.testing.assert_allclose(noise.std(axis=0), 0.5 * X.std(axis=0), rtol=0.03)
