"""Augmented copies of events: their distribution, their order, and going on after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import streamk

from connectors import augmented
from connectors.augmented import AugmentedSource
from connectors.base import Source
from connectors.errors import BadURL, OffsetOutOfRange, Unavailable


def take(source: Source, n: int, step: int = 1000) -> tuple[Any, Any]:
    parts = []
    while n:
        [chunk] = source.poll(min(n, step), 0.0)
        parts.append(chunk.values)
        n -= len(chunk)
    return np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])


def images(n: int = 40, height: int = 4, width: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(1, 9, (n, height * width)).astype(float), rng.integers(0, 3, n)


def open_source(address: str, **options: Any) -> Source:
    from connectors.registry import parse_url

    return augmented._open(parse_url(address), **options)


def test_without_options_each_pass_has_every_event_once() -> None:
    X, y = images(300)
    Z, labels = take(AugmentedSource(X, y), 600)
    for some in (slice(0, 300), slice(300, 600)):
        order = np.lexsort(Z[some].T)
        np.testing.assert_array_equal(Z[some][order], X[np.lexsort(X.T)])
        assert sorted(labels[some]) == sorted(y)
    assert not np.array_equal(Z[:300], Z[300:])


@pytest.mark.parametrize("step", [1, 7, 256, 1000])
def test_an_event_depends_on_its_position_alone(step: int) -> None:
    X, y = images()
    options: dict[str, Any] = {"noise": 0.3, "shift": 1, "width": 5, "mixup": 0.4, "seed": 3}
    whole = take(AugmentedSource(X, y, **options), 700)
    again = AugmentedSource(X, y, **options)
    again.seek("0", 123)
    part = take(again, 577, step)
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one[123:], other)
    other = take(AugmentedSource(X, y, **{**options, "seed": 4}), 700)
    assert not np.array_equal(whole[0], other[0])


def test_images_move_and_zeros_come_in() -> None:
    X, y = images()
    Z, _ = take(AugmentedSource(X, y, shift=2, width=5), 400)
    moves = set()
    for image in Z.reshape(400, 4, 5):
        found = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-2, 3)
            for whole in X.reshape(40, 4, 5)
            if np.array_equal(image, _moved(whole, down, right))
        ]
        assert len(found) >= 1
        moves.add(found[0])
    assert len(moves) == 25


def _moved(image: Any, down: int, right: int) -> Any:
    found = np.zeros_like(image)
    for i in range(4):
        for j in range(5):
            if 0 <= i + down < 4 and 0 <= j + right < 5:
                found[i + down, j + right] = image[i, j]
    return found


def test_noise_is_in_units_of_the_columns() -> None:
    X = np.column_stack([np.arange(100.0), np.zeros(100), 50.0 * np.arange(100.0)])
    y = np.arange(100)
    Z, labels = take(AugmentedSource(X, y, noise=0.5), 20_000)
    noise = Z - X[labels]
    assert (noise[:, 1] == 0).all()
    spread = np.array([X[:, 0].std(), X[:, 2].std()])
    np.testing.assert_allclose(noise[:, [0, 2]].std(axis=0), 0.5 * spread, rtol=0.03)


def test_events_of_a_class_are_mixed() -> None:
    X = np.array([[0.0], [1.0], [10.0], [12.0], [100.0]])
    Z, labels = take(AugmentedSource(X, np.array(["a", "a", "b", "b", "c"]), mixup=1.0), 5000)
    for label, low, high in (("a", 0, 1), ("b", 10, 12), ("c", 100, 100)):
        some = Z[labels == label]
        assert len(some) == (1000 if label == "c" else 2000)
        assert some.min() > low - 1e-9
        assert some.max() < high + 1e-9
        assert label == "c" or some.std() > 0.1 * (high - low)


def test_labels_of_numbers_are_mixed_as_the_events_are() -> None:
    X = np.arange(10.0)[:, None]
    Z, labels = take(AugmentedSource(X, 3.0 * X[:, 0] + 1.0, mixup=0.5), 1000)
    np.testing.assert_allclose(labels, 3.0 * Z[:, 0] + 1.0)
    assert len(np.unique(labels)) > 500


def test_a_limit_ends_it_and_positions_past_it_are_refused() -> None:
    source = AugmentedSource(*images(), limit=300)
    assert (source.end("0"), source.lag(), source.finished()) == (300, 300, False)
    take(source, 300)
    assert (source.poll(10, 0.0), source.lag(), source.finished()) == ([], 0, True)
    with pytest.raises(OffsetOutOfRange, match="301"):
        source.seek("0", 301)
    endless = AugmentedSource(*images())
    assert (endless.end("0"), endless.lag(), endless.finished()) == (None, None, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -1.0}, "noise is a finite number, 0 or more"),
        ({"seed": -1}, "seed is a whole number"),
        ({"width": 5}, "leave it out"),
        ({"mixup": float("nan")}, "mixup"),
        ({"limit": 0}, "limit is at least 1"),
        ({"shift": 1}, "needs the width"),
        ({"shift": 1, "width": 7}, "does not divide the 20 columns"),
        ({"shift": 4, "width": 5}, "out of sight"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    X, y = images()
    with pytest.raises(ValueError, match=message):
        AugmentedSource(X, y, **options)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    with pytest.raises(BadURL, match=message):
        open_source(f"augment:{tmp_path / 'a.npz'}", **options)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="there is no file"):
        open_source(f"augment:{tmp_path / 'none.npz'}")
    (tmp_path / "text.npz").write_text("no arrays")
    with pytest.raises(BadURL, match=r"no \.npz file"):
        open_source(f"augment:{tmp_path / 'text.npz'}")
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    with pytest.raises(BadURL, match="'y"):
        open_source(f"augment:{tmp_path / 'x.npz'}")
    np.savez(tmp_path / "bad.npz", X=np.array([[1.0], [np.nan]]), y=[0, 1])
    with pytest.raises(BadURL, match="row 1 of X is not finite"):
        open_source(f"augment:{tmp_path / 'bad.npz'}")
    np.savez(tmp_path / "odd.npz", X=np.eye(2), y=[0, 1, 2])
    with pytest.raises(BadURL, match="no events and labels"):
        open_source(f"augment:{tmp_path / 'odd.npz'}")
    np.savez(tmp_path / "images.npz", X=np.zeros((3, 4, 5)), y=[0, 1, 2])
    with pytest.raises(BadURL, match="4 x 5 as rows of 20 numbers, and width=5"):
        open_source(f"augment:{tmp_path / 'images.npz'}")
    np.savez(tmp_path / "objects.npz", X=np.array([[1, "a"]], object), y=[0])
    with pytest.raises(BadURL, match=r"no \.npz file") as error:
        open_source(f"augment:{tmp_path / 'objects.npz'}")
    assert "pickle" not in str(error.value)


def test_a_job_goes_on_with_the_events_that_it_would_have_had(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", **dict(zip(("X", "y"), images(), strict=True)))
    source = "augment:e.npz?noise=0.2&shift=1&width=5&mixup=0.5"
    job = ("run", source, "--label", "label", "--model", "eigenpro", "--set", "n_centers=20")
    job = (*job, "--set", "batch_size=16", "--json", "--quiet", "--to", "csv:out.csv")
    whole = json.loads(streamk(*job, "--max-events", "400", cwd=tmp_path)[0])
    first = (tmp_path / "out.csv").read_text()
    (tmp_path / "out.csv").unlink()
    for n in ("150", "250"):
        streamk(*job, "--checkpoint", "state", "--max-events", n, cwd=tmp_path)
    other = (*job[:1], source.replace("noise=0.2", "noise=0.3"), *job[2:], "--checkpoint", "state")
    _, err = streamk(*other, "--max-events", "400", cwd=tmp_path, status=1)
    assert "noise=0.2" in err
    parted = streamk(*job, "--checkpoint", "state", "--max-events", "400", cwd=tmp_path)[0]
    assert json.loads(parted)["events"] == 400
    assert json.loads(parted)["whole"] == whole["whole"]
    assert (tmp_path / "out.csv").read_text() == first
