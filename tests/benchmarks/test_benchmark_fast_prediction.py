"""The benchmark of fast prediction on generated data: its parts run, their tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fast_prediction import __main__ as fast_prediction
from benchmarks.fast_prediction import boosting, classes, compiled_trees

SLOW_PARTS = ("classes", "kddcup", "ablation")

pytest.importorskip("sklearn", reason="the rivals are scikit-learn's: pip install scikit-learn")


@pytest.mark.parametrize(
    "part",
    ["numbers", *(pytest.param(part, marks=pytest.mark.nightly) for part in SLOW_PARTS)],
)
def test_a_part_runs(part: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    fast_prediction.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]
    assert fast_prediction.render(document)


@pytest.mark.parametrize("classes_there", [2, 3])
def test_trees_as_c_predict_what_lightgbm_does(classes_there: int) -> None:
    if gaps := compiled_trees.missing():
        pytest.skip("LightGBM by Treelite takes " + ", ".join(gaps))
    import lightgbm

    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    y = np.digitize(X[:, 0] * X[:, 1], [0.0, 0.5][: classes_there - 1])
    model = lightgbm.LGBMClassifier(n_estimators=30, n_jobs=1, verbose=-1).fit(X, y)
    outputs = classes_there if classes_there > 2 else 1
    predict = compiled_trees.compiled(model.booster_, 5, outputs)
    expected = model.booster_.predict(X, raw_score=True).reshape(300, outputs)
    np.testing.assert_allclose(predict(X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(predict(X[7:8]), predict(X)[7:8])


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_trees, "missing", lambda: ["treelite"])
    assert not any(name.startswith(boosting.COMPILED) for name in boosting.contestants(quick=True))
    got = {"accuracy": 0.5, "seconds": 1.0, "cost": None, "many": 1.0, "one": 1.0, "p99": 1.0}
    one = {"rows": 9, "models": {"linear, fused": got}, "missing": boosting.missing()}
    assert "by Treelite: no figures, for want of treelite" in classes.render({"some": one})


def test_the_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture is drawn by matplotlib")
    from benchmarks.fast_prediction import plots

    document = json.loads((plots.common.RESULTS / "fast_prediction.json").read_text())
    for path in plots.draw(document, tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
