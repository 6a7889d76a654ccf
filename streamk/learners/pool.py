"""The experts of a multi-kernel learner: their arrays, and the table by which loops find them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Law, select
from streamk.features.quantiles import RunningQuantiles

FEATURES = 256
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
GROUPS = (
    (1, 64, (4, 16)),
    (2, 96, (4, 8, 16)),
    (3, 96, (2, 4, 8)),
    (6, 96, (2, 4)),
    (64, 48, (1, 2, 4)),
)
LINEAR_RULES = ((0, 0.3), (1, 0.05), (1, 0.5))
LADDER_RULES = ((0, 0.3), (1, 0.5))
GRID_RULES = ((0.02, 0.1), (0.1, 0.1), (0.5, 0.03))
ALPHAS = (1e-3, 1e-2)
PRODUCT = ((2e-3, 0.0, 1.0), (0.0, 0.01, 0.9998), (0.0, 0.1, 0.999))
SLOTS = 1 << 21
WINDOW_BYTES = 4 << 20
WINDOW = 1000
NEWTON_COLUMNS = 64
BINARY, CLASSES, NUMBERS = 0, 1, 2


def rendezvous(seed: int, keys: NDArray[np.uint64]) -> list[NDArray[np.intp]]:
    """Columns of each table: those whose hash with the table's number is least."""
    out = []
    n = 0
    with np.errstate(over="ignore"):
        for size, count, _ in GROUPS:
            for _t in range(count):
                h = keys ^ np.uint64((n + 1) * 0x9E3779B97F4A7C15 % 2**64 ^ seed)
                for s in (30, 27, 31):
                    h = (h ^ (h >> np.uint64(s))) * np.uint64(0xBF58476D1CE4E5B9)
                size_ = min(size, len(keys))
                pick = (
                    np.argpartition(h, size_ - 1)[:size_]
                    if size_ < len(keys)
                    else np.arange(len(keys))
                )
                out.append(pick[np.argsort(h[pick])])
                n += 1
    return out


class Pool:
    def __init__(self, keys: NDArray[np.uint64], *, task: int, classes: int, seed: int) -> None:
        from streamk.backends.numba_backend.experts import event, places

        self.places = places
        self.task, self.d, self.classes, self.seed = task, len(keys), classes, seed
        d, m, s = self.d, FEATURES, len(SCALES)
        k = self.k = 1 if task != CLASSES else classes
        a: dict[str, Any] = {}
        f4, f8, i8 = np.float32, np.float64, np.int64
        two = 2.0 if task == BINARY else 1.0
        # inputs and room
        a.update(
            Z=np.zeros(d + 1, f4), R=np.zeros(d, f4), U=np.zeros(m, f4), PHI=np.zeros((s, m), f4)
        )
        # linear
        rl = LINEAR_RULES
        a["LINEAR_A"] = np.zeros((len(rl), k, d + 1), f4)
        a["LINEAR_SQUARES"] = np.zeros_like(a["LINEAR_A"])
        a["LINEAR_RATES"] = np.array(
            [two * r / (math.sqrt(d + 1) if kind == 0 else 1) for kind, r in rl]
        )
        a["LINEAR_KINDS"] = np.array([kind for kind, _ in rl], i8)
        W = np.empty((m // CHUNK, d, CHUNK), f4)
        b = np.empty((m // CHUNK, CHUNK), f4)
        select("numba").frequencies(seed, Law.NORMAL, 1, 1.0, keys, 0, W, b)
        a["PROJECTION"] = np.ascontiguousarray(W.transpose(1, 0, 2).reshape(d, m))
        a["PHASES"] = b.reshape(m)
        a["SCALES"] = np.array(SCALES)
        a["LADDER_A"] = np.zeros((s, len(LADDER_RULES), k, m), f4)
        a["LADDER_SQUARES"] = np.zeros_like(a["LADDER_A"])
        a["LADDER_RATES"] = np.array(
            [two * r / (math.sqrt(m) if kind == 0 else 1) for kind, r in LADDER_RULES]
        )
        a["LADDER_KINDS"] = np.array([kind for kind, _ in LADDER_RULES], i8)
        # grids
        picks = rendezvous(seed, keys)
        a["STARTS"] = np.concatenate([[0], np.cumsum([len(p) for p in picks])]).astype(i8)
        a["MEMBERS_OF"] = np.concatenate(picks).astype(i8)
        rng = np.random.default_rng(seed)
        a["SHIFTS"] = rng.random(len(a["MEMBERS_OF"])).astype(f4)
        bins, group = [], []
        for g, (_, count, choice) in enumerate(GROUPS):
            bins += [choice[i % len(choice)] for i in range(count)]
            group += [g] * count
        a["BINS"], a["GROUP"] = np.array(bins, i8), np.array(group, i8)
        most = SLOTS // (k * len(bins))
        most = 1 << max(4, min(12, int(math.log2(most))))
        slots = [min((b + 2) ** min(len(p), 12), most) for b, p in zip(bins, picks)]
        a["FIRST"] = np.concatenate([[0], np.cumsum(slots)]).astype(i8)
        n, t = len(GRID_RULES), len(bins)
        a["FACTORS"], a["SPREAD"] = np.ones((t, n), f4), np.full((t, n), 1e-3, f4)
        a["CELLS_A"] = np.zeros((a["FIRST"][-1], n, k), f4)
        a["CELLS_SQUARES"] = np.zeros((a["FIRST"][-1], n), f4)
        a["GRID_RATES"] = np.array(
            [[two * r * 8 / math.sqrt(c) for r, _ in GRID_RULES] for _, c, _ in GROUPS]
        )
        a["GRID_PACES"] = np.array([p for _, p in GRID_RULES])
        a["CELLS"] = np.zeros(t, i8)
        # window
        N = max(16, min(WINDOW, WINDOW_BYTES // (4 * d)))
        a["WINDOW_Z"], a["WINDOW_Y"], a["DISTANCES"] = (
            np.zeros((N, d), f4),
            np.zeros(N, f4),
            np.zeros(N, f4),
        )
        a["SUMS"] = np.zeros((event.SMOOTHERS, classes + 1), f4)
        p = d + 1 if d <= NEWTON_COLUMNS else 0
        a["NEWTON_A"], a["NEWTON_P"], a["NEWTON_STEP"] = (
            np.zeros((k, p), f4),
            np.eye(p, dtype=f4),
            np.zeros(p, f4),
        )
        E = len(rl) + s * len(LADDER_RULES) + len(GROUPS) * n + event.SMOOTHERS + (p > 0) + event.LEVELS
        self.E = E
        a["F"], a["G"] = np.zeros((E, k), f4), np.zeros((E, k), f4)
        a["SHARES"] = np.full((len(ALPHAS), E), 1 / E)
        a["ALPHAS"] = np.array(ALPHAS)
        q = len(PRODUCT)
        a["PRODUCTS"] = np.full((q, E), 1 / E)
        a["PRODUCT_RATES"], a["PRODUCT_STARTS"], a["FORGETS"] = (np.array(v) for v in zip(*PRODUCT))
        a["INVERSES"] = np.stack([np.eye(E) * st for _, st, _ in PRODUCT])
        x = len(ALPHAS) + q
        a["TOP"], a["ABOVE"] = np.full(x, 1 / x), np.zeros(x)
        a["MIXED"], a["OPINIONS"] = np.zeros((x, k)), np.zeros((E, k))
        a["LOSSES"], a["ROOM"], a["NEWTON_ROOM"], a["SLOPES"], a["OUT"] = (
            np.zeros(E),
            np.zeros(k),
            np.zeros(E),
            np.zeros(E),
            np.zeros(k),
        )
        a["AWAKE"], a["ON"], a["ALL"] = np.ones(5, bool), np.ones(E, bool), np.ones(E, bool)
        a["DISTANCE"] = np.ones(1)
        a["BANKS"] = np.array([0] * len(rl) + [1] * (s * len(LADDER_RULES)) + [2] * (len(GROUPS) * n) + [3] * event.SMOOTHERS + [4] * (p > 0) + [5] * event.LEVELS, i8)
        a['LEVEL'] = np.full((event.LEVELS, 1 if task == NUMBERS else classes), 0.0 if task == NUMBERS else 1 / classes, f4)
        a["ACCOUNT"] = np.zeros(8)
        self.scale = RunningQuantiles(d, seed=seed)
        self.arrays = a
        T = self.table = np.zeros(places.SIZE, i8)
        for name, v in dict(
            TASK=task,
            COLUMNS=d,
            FEATURES=m,
            BANDWIDTHS=s,
            OUTPUTS=k,
            CLASSES=1 if task == NUMBERS else classes,
            TABLES=t,
            GROUPS=len(GROUPS),
            MEMBERS=len(a["MEMBERS_OF"]),
            SLOTS=len(a["CELLS_A"]),
            EXPERTS=E,
            WINDOW=N,
            LINEAR_RULES=len(rl),
            LADDER_RULES=len(LADDER_RULES),
            GRID_RULES=n,
            NEWTON=p,
            MIXERS_SHARE=len(ALPHAS),
            MIXERS_PRODUCT=q,
            LEVELS=32,
        ).items():
            T[getattr(places, name)] = v
        self.refresh()

    def refresh(self) -> None:
        a, sc = self.arrays, self.scale
        a["CENTER"], a["INVERSE"], a["KNOTS"], a["INDICATOR"] = (
            np.ascontiguousarray(v) for v in (sc.center, sc.inverse, sc.knots, sc.indicator)
        )
        a["DISTANCE"][0] = sc.distance
        a["SCALES"][:] = np.array(SCALES) * math.sqrt(2) / sc.distance
        for name, v in a.items():
            if name not in ("X",):
                self.table[getattr(self.places, name)] = v.ctypes.data
