"""`streamk demo`: says what it waits for before it loads what takes a second or more."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from streamk.cli.arguments import Parser, UsageError

DESCRIPTION = """\
Learn to tell seven kinds of surface (brick, sky, foliage, ...) from 18 figures
of a piece of a photograph: 2,310 events of the UCI data set "Statlog (Image
Segmentation)", which comes with River. No network is needed.

The run is stopped in the middle and resumed from its checkpoint. It ends with
a table and a picture, beside River's logistic regression and the class that
was the most frequent so far. Each model predicts an event before it learns it.
"""

WAITS = "loading; a first run on a machine compiles loops for its processor, for some 20 s"


def main(arguments: Sequence[str]) -> int:
    """Run the demo."""
    parser = Parser("streamk demo", DESCRIPTION)
    about = "where its files go (default: streamk-demo, made anew)"
    parser.group("options")("--out DIR", about)
    parser.add_common()
    out = _fresh(Path(parser.parse(arguments).get("out", "streamk-demo")).expanduser())
    print(f"streamk demo: {WAITS}", file=sys.stderr, flush=True)
    from streamk.cli.demo_run import show

    show(out)
    return 0


def _fresh(out: Path) -> Path:
    """The directory, without what an earlier demo left. Raises `UsageError` if it is another's."""
    state = out / "state"
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; it must be a directory")
    if out.exists() and any(out.iterdir()):
        if not (state / "member-0").is_dir():
            raise UsageError(f"--out {out} holds files of something else; choose another directory")
        shutil.rmtree(state)
        for name in ("predictions.ndjson", "accuracy.png"):
            (out / name).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    return out
