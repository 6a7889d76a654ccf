"""The benchmark of late labels: it runs on a few events, its table is made."""

from __future__ import annotations

import json

import pytest
from late_kit import small_segments

from benchmarks.late_labels import __main__ as late_labels
from benchmarks.late_labels import kills, one_run, records

ORIGIN = {
    "date": "2024-01-01",
    "machine": {"cpu": "", "cores": 1, "vectors": []},
    "versions": {"python": "", "numpy": "", "numba": "", "river": ""},
}


@pytest.mark.parametrize("name", ["join alone", "multi-kernel"])
def test_one_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with small_segments(256):
        one_run.main([name, "1024", "64", "random", "1024"])
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["second_bytes"] < found["first_bytes"]
    assert found["first_bytes"] > 1024 * 8 * len(records.COLUMNS)
    assert min(found["filling_per_core_s"], found["steady_per_s"], found["peak_mib"]) > 0
    document = {"results": {"rates": {f"{name}/1024/64/random": found}}, **ORIGIN}
    assert ", 1,024, 64, random" in late_labels.render(document)


def test_a_job_is_killed() -> None:
    found = kills.measure(quick=True)
    assert set(found["same"].values()) == {True}
    document = {"results": {"kills": found}, **ORIGIN}
    assert "predictions the same bits" in late_labels.render(document)


def test_labels_are_of_events_that_are_held() -> None:
    for shuffled in (False, True):
        trainer = records.trainer(one_run.Same(), 2048)  # type: ignore[arg-type]
        steady = records.steady(2048, 1000, 1, shuffled=shuffled)
        for batch in (*records.filling(2048), *steady):
            trainer.take(batch)
        trainer.settle()
        assert trainer.fates.joined == 1000
        assert trainer.fates.held == 2048
