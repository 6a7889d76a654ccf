"""The engine: files, decoding, order, figures and checkpoints around a learner."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from connectors.memory import MemorySource
from connectors.registry import open_source
from streamk.engine import Engine
from streamk.learners import create

from .common import COLUMNS, events

EVENTS = 4096


class Run:
    """A run over a source, with one kernel of few features, so that the rest is seen."""

    params = ("rows", "ndjson", "csv")
    param_names = ("source",)
    timeout = 300

    def setup(self, form: str) -> None:
        X, y = events(EVENTS)
        self.rows = (X, y.astype(str))
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / f"events.{form}"
        names = [f"c{i}" for i in range(COLUMNS)]
        lines = [
            dict(zip([*names, "y"], [*x, str(k)], strict=True))
            for x, k in zip(X.tolist(), y, strict=True)
        ]
        if form == "ndjson":
            self.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        elif form == "csv":
            rows = [",".join([*names, "y"])]
            rows += [",".join(map(str, line.values())) for line in lines]
            self.path.write_text("\n".join(rows) + "\n")
        self.time_run(form)

    def teardown(self, form: str) -> None:
        self.folder.cleanup()

    def _run(self, form: str, checkpoint: Path | None) -> None:
        scheme = {"ndjson": "file", "csv": "csv"}
        source = (
            MemorySource(self.rows)
            if form == "rows"
            else open_source(f"{scheme[form]}:{self.path}")
        )
        options = {"max_features": 64, "block_size": 64}
        model = create("doubly-stochastic", task="classification", seed=1, **options)
        label = "label" if form == "rows" else "y"
        Engine(source, model, label=label, checkpoint=checkpoint, checkpoint_every=1024).run()

    def time_run(self, form: str) -> None:
        self._run(form, None)

    def time_run_with_checkpoints(self, form: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._run(form, Path(folder) / "state")
