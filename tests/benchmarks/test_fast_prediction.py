"""Trees that are served: what LightGBM's become as C, and what is said without them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the rivals are scikit-learn's: pip install scikit-learn")

from benchmarks import fast_prediction as fast


@pytest.mark.parametrize("classes_there", [2, 3])
def test_trees_as_c_predict_what_lightgbm_does(classes_there: int) -> None:
    if gaps := fast.lacking():
        pytest.skip("LightGBM by Treelite takes " + ", ".join(gaps))
    import lightgbm

    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    y = np.digitize(X[:, 0] * X[:, 1], [0.0, 0.5][: classes_there - 1])
    model = lightgbm.LGBMClassifier(n_estimators=30, n_jobs=1, verbose=-1).fit(X, y)
    outputs = classes_there if classes_there > 2 else 1
    predict = fast.compiled(model.booster_, 5, outputs)
    expected = model.booster_.predict(X, raw_score=True).reshape(300, outputs)
    np.testing.assert_allclose(predict(X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(predict(X[7:8]), predict(X)[7:8])


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "lacking", lambda: ["treelite"])
    assert not any(name.startswith(fast.COMPILED) for name in fast.contestants(quick=True))
    got = {"accuracy": 0.5, "seconds": 1.0, "cost": None, "many": 1.0, "one": 1.0, "p99": 1.0}
    one = {"rows": 9, "models": {"linear, fused": got}, "missing": fast.missing()}
    assert "by Treelite: no figures, for want of treelite" in fast.render_classes({"some": one})
