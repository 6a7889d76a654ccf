"""From the outputs of experts to their scores and predictions, and to the slopes of their losses.

An expert's outputs are a logit (two classes), logits or log-probabilities (more), or a number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import BINARY, NUMBERS
from streamk.backends.numba_backend.experts.compiled import exponential, fast, ordered
from streamk.backends.numba_backend.experts.mixing import costs
from streamk.backends.numba_backend.experts.mixing.two_stage import LEAST


@ordered
def greatest_of(values: Any) -> Any:
    """Return the greatest of some numbers."""
    top = values[0]
    for k in range(1, len(values)):
        top = max(top, values[k])
    return top


@fast
def sigmoid(logit: Any) -> Any:
    """Return the probability that a logit of single precision stands for."""
    small = exponential(-abs(logit))
    q = np.float32(1.0) / (np.float32(1.0) + small)
    return q if logit >= np.float32(0.0) else small * q


@fast
def _softmax(F: Any, L: Any, P: Any) -> None:
    """Write log-probabilities, not below log(LEAST), and probabilities, a row for each expert.

    Exponentials are taken of all rows at once: one row seldom fills a vector.
    """
    number = F.dtype.type
    for e in range(len(F)):
        top = greatest_of(F[e])
        for k in range(F.shape[1]):
            L[e, k] = F[e, k] - top
    p, row = P.ravel(), L.ravel()
    for i in range(len(p)):
        p[i] = exponential(row[i])
    for e in range(len(F)):
        total = P[e, 0]
        for k in range(1, F.shape[1]):
            total += P[e, k]
        shift, inverse = number(math.log(total)), number(1.0) / total
        for k in range(F.shape[1]):
            P[e, k] *= inverse
            L[e, k] = max(L[e, k] - shift, number(math.log(LEAST)))


@fast
def to_scores(task: Any, F: Any, L: Any, P: Any) -> None:
    """Write scores L from outputs F (experts, outputs), and what `slopes` starts from.

    A score is a logit, log-probabilities or a number, all within bounds; P are the probabilities
    without bounds, or the numbers.
    """
    number = F.dtype.type
    if task == NUMBERS:
        f, row, p = F.ravel(), L.ravel(), P.ravel()
        for e in range(len(f)):
            row[e] = min(max(f[e], number(-costs.ENDS)), number(costs.ENDS))
            p[e] = f[e]
    elif task == BINARY:
        f, row, p = F.ravel(), L.ravel(), P.ravel()
        limit = number(-math.log(LEAST))
        for e in range(len(f)):
            row[e] = min(max(f[e], -limit), limit)
            p[e] = sigmoid(f[e])
    else:
        _softmax(F, L, P)


@fast
def clear_inactive(on: Any, L: Any, P: Any, external: Any) -> None:
    """Write scores and slopes of 0 for those of the last experts that are inactive."""
    for e in range(len(on) - external, len(on)):
        if on[e] == 0.0:
            for k in range(L.shape[1]):
                L[e, k] = P[e, k] = 0.0


@fast
def slopes(task: Any, y: Any, how: Any, P: Any) -> None:
    """Turn what `to_scores` left into the slopes of the experts' own losses in their outputs.

    `how` errors of numbers count, see `costs`; of quantiles `offsets` has the slopes.
    """
    number = P.dtype.type
    if task == NUMBERS:
        end = number(costs.longest(how))
        for e in range(len(P)):
            P[e, 0] = min(max(P[e, 0] - number(y), -end), end)
    elif task == BINARY:
        for e in range(len(P)):
            P[e, 0] -= number(y)
    else:
        for e in range(len(P)):
            P[e, int(y)] -= number(1.0)


@fast
def to_probabilities(task: Any, L: Any, out: Any) -> None:
    """Write the predictions of scores L as float64: probabilities, or numbers."""
    row, p = L.ravel(), out.ravel()
    if task == NUMBERS:
        for i in range(len(row)):
            p[i] = row[i]
    elif task == BINARY:
        for i in range(len(row)):
            p[i] = sigmoid(row[i])
    else:
        for i in range(len(row)):
            p[i] = exponential(row[i])


@fast
def store(L: Any, on: Any, out: Any) -> None:
    """Write scores (experts, outputs) as they are kept: NaN where an expert is inactive."""
    for e in range(len(on)):
        active = on[e] > 0.0
        for k in range(L.shape[1]):
            out[e, k] = L[e, k] if active else np.nan


@fast
def load(kept: Any, L: Any, on: Any) -> None:
    """Write the scores that `store` was given, 0 for inactive experts, and the mask."""
    for e in range(len(on)):
        active = kept[e, 0] == kept[e, 0]
        on[e] = 1.0 if active else 0.0
        for k in range(L.shape[1]):
            L[e, k] = kept[e, k] if active else 0.0


@fast
def differ(kept: Any, L: Any, on: Any) -> Any:
    """Return whether kept scores differ from these, or are of other active experts."""
    count = np.int32(0)
    for e in range(len(on)):
        for k in range(L.shape[1]):
            slept = kept[e, k] != kept[e, k]
            count += np.int32(on[e] > 0.0 if slept else (kept[e, k] != L[e, k]) | (on[e] == 0.0))
    return count > 0
