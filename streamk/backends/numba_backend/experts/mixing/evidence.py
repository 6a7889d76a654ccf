"""Evidence for external experts: two mixtures side by side, with them and without.

The mixture of all experts is what is predicted while, over the last thousand events or so, it has
lost less than that of the pool's own experts and has not made more errors, but for chance: of the
events of which one of the two was right, the other may have won up to a deviation more than half.
So external experts do no harm where they make likely what does not come, however small their log
loss is: the two part ways where labels are noisy.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends import BINARY, NUMBERS
from streamk.backends.numba_backend.experts import view
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.mixing import two_stage, weights

WORTH = 0.02
"""Part of the loss that external experts have to spare the others to stay active."""
_MEMORY = 0.999
_SPARED, _FEWER, _APART, _WORTH, _FEWER_SINCE, _APART_SINCE = range(6)
"""Places: by how much less the mixture of all experts has lost, how many fewer errors it has made,
and of how many events one of the two was right, each as a discounted sum; then the same since the
last review, less the part of the loss that there has to be."""


@fast
def choose(table: Any, on: Any) -> None:
    """Write the prediction of the better one of the two mixtures."""
    known, out = view.evidence(table), view.out(table)
    own, full = view.own_out(table), view.full_out(table)
    enough = known[_SPARED] > 0.0 and known[_FEWER] >= -math.sqrt(known[_APART])
    better = enough and weights.has_external(table, on)
    for k in range(len(out)):
        out[k] = full[k] if better else own[k]


@fast
def _is_wrong(task: Any, prediction: Any, y: Any) -> Any:
    """Return 1.0 if the label is not the most probable class, else 0.0; 0.0 of numbers."""
    if task == NUMBERS:
        return 0.0
    if task == BINARY:
        return 1.0 if (prediction[0] > 0.5) != (y > 0.5) else 0.0
    label = int(y)
    for k in range(len(prediction)):
        if prediction[k] > prediction[label]:
            return 1.0
    return 0.0


@fast
def compare(table: Any, task: Any, y: Any) -> None:
    """Take in how the two mixtures have predicted a label."""
    known, how = view.evidence(table), view.loss(table)
    own, full = view.own_out(table), view.full_out(table)
    lost = two_stage.loss(task, full, y, how)
    spared = two_stage.loss(task, own, y, how) - lost
    fewer = _is_wrong(task, own, y) - _is_wrong(task, full, y)
    known[_SPARED] = _MEMORY * known[_SPARED] + spared
    known[_FEWER] = _MEMORY * known[_FEWER] + fewer
    known[_APART] = _MEMORY * known[_APART] + abs(fewer)
    known[_WORTH] += spared - WORTH * lost
    known[_FEWER_SINCE] += fewer
    known[_APART_SINCE] += abs(fewer)
