"""The benchmark of late labels: it runs on a few events, its table is made."""

from __future__ import annotations

import json

import pytest

from benchmarks.late_labels import __main__ as late_labels
from benchmarks.late_labels import one_run, records


@pytest.mark.parametrize("name", ["join alone", "multi-kernel"])
def test_one_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    one_run.main([name, "1024", "64", "1024"])
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_on_disk"] > 8 * len(records.COLUMNS)
    assert min(found["filling_per_s"], found["steady_per_s"]) > 0
    origin = {
        "date": "2024-01-01",
        "machine": {"cpu": "", "cores": 1, "vectors": []},
        "versions": {"python": "", "numpy": "", "numba": "", "river": ""},
    }
    document = {"results": {"rates": {f"{name}/1024/64": found}}, **origin}
    assert "1,024 held" in late_labels.render(document)


def test_labels_are_of_events_that_came_so_many_before() -> None:
    trainer = records.trainer(one_run.Same(), 2048)  # type: ignore[arg-type]
    for batch in (*records.filling(2048), *records.steady(2048, 1024, 1)):
        trainer.take(batch)
    trainer.settle()
    assert trainer.fates.joined == 1024
    assert trainer.fates.held == 2048
