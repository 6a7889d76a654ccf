"""The oracles: every algorithm as plainly as its paper states it.

Nothing here imports streamk. Plain Python integers and floats, one number at a time; numpy
only holds the rows of features so that a straight loop over 500 steps stays quick. Speed,
memory and float32 are no concern: what is written here is meant to be checked by reading.

Random numbers: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox
with four 32-bit words and ten rounds. Learning: Dai et al., "Scalable kernel methods via doubly
stochastic gradients" (2014), Algorithms 1 and 2.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

# --- random numbers -------------------------------------------------------------------------------

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, as 32-bit fractions

FREQUENCY, PHASE, SIGN, LENGTH, RADIUS = 0, 1, 2, 5, 16  # stream tags


def philox4x32(counter: Sequence[int], key: Sequence[int], rounds: int = 10) -> tuple[int, ...]:
    """Four 32-bit words from a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        product0 = MULTIPLIERS[0] * c0
        product1 = MULTIPLIERS[1] * c2
        high0, low0 = product0 >> 32, product0 & MASK
        high1, low1 = product1 >> 32, product1 & MASK
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = (k0 + WEYL[0]) & MASK
        k1 = (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def column_key(name: int | str) -> int:
    """64 bits that stand for a column: an integer is itself, a name its BLAKE2b hash."""
    if isinstance(name, int):
        return name
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest()
    return sum(byte << (8 * place) for place, byte in enumerate(digest))


def words(seed: int, tag: int, i: int, key: int) -> tuple[int, ...]:
    """The four words of the group of four features that feature i belongs to."""
    return philox4x32((i // 4, tag, key & MASK, key >> 32), (seed & MASK, seed >> 32))


def uniform(seed: int, tag: int, i: int, key: int) -> float:
    """The draw of feature i, in the open interval (0, 1)."""
    return (words(seed, tag, i, key)[i % 4] + 0.5) * 2.0**-32


@cache
def normal(seed: int, tag: int, i: int, key: int) -> float:
    """Box-Muller on the words (0, 1) and (2, 3): cosine for the even word, sine for the odd."""
    pair = i - i % 2
    u, v = uniform(seed, tag, pair, key), uniform(seed, tag, pair + 1, key)
    radius = math.sqrt(-2.0 * math.log(u))
    angle = 2.0 * math.pi * v
    return radius * (math.cos(angle) if i % 2 == 0 else math.sin(angle))


def cauchy(seed: int, tag: int, i: int, key: int) -> float:
    return math.tan(math.pi * (uniform(seed, tag, i, key) - 0.5))


def laplace(seed: int, tag: int, i: int, key: int) -> float:
    centred = uniform(seed, tag, i, key) - 0.5
    magnitude = -math.log(1.0 - 2.0 * abs(centred))
    return magnitude if centred > 0 else -magnitude


def chi2(seed: int, i: int, degrees: int) -> float:
    """Chi-squared of a whole number of degrees of freedom: one radius stream for each normal."""
    return sum(normal(seed, RADIUS + j, i, 0) ** 2 for j in range(degrees))


# --- kernels and their features -------------------------------------------------------------------


class Kernel(NamedTuple):
    """gaussian, laplacian, power_exponential, matern, rational_quadratic, cauchy, ntk (`scale` in
    the units of x); linear.

    `nu` is Matern's smoothness, alpha of the rational quadratic, or the hidden layers of ntk.
    """

    name: str
    scale: float = 1.0
    nu: float = 0.5


def kernel(k: Kernel, x: Sequence[float], y: Sequence[float]) -> float:
    delta = [float(a) - float(b) for a, b in zip(x, y, strict=True)]
    euclidean = math.sqrt(sum(t * t for t in delta))
    if k.name == "gaussian":
        return math.exp(-(euclidean**2) / (2.0 * k.scale**2))
    if k.name == "laplacian":
        return math.exp(-sum(abs(t) for t in delta) / k.scale)
    if k.name == "power_exponential":  # Sacks et al. 1989, equation 9 with p = 1/2
        return math.exp(-sum(math.sqrt(abs(t) / k.scale) for t in delta))
    if k.name == "cauchy":
        return math.prod(1.0 / (1.0 + (t / k.scale) ** 2) for t in delta)
    if k.name == "linear":
        return sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
    if k.name == "ntk":
        return neural_tangent(angle(k.scale, x, y), round(k.nu)) / (round(k.nu) + 1)
    r = euclidean / k.scale
    if k.name == "rational_quadratic":
        return (1.0 + r * r / (2.0 * k.nu)) ** -k.nu
    assert k.name == "matern"
    if k.nu == 0.5:
        return math.exp(-r)
    if k.nu == 1.5:
        return (1.0 + math.sqrt(3.0) * r) * math.exp(-math.sqrt(3.0) * r)
    assert k.nu == 2.5
    return (1.0 + math.sqrt(5.0) * r + 5.0 * r * r / 3.0) * math.exp(-math.sqrt(5.0) * r)


def angle(bias: float, x: Sequence[float], y: Sequence[float]) -> float:
    """Between (bias, x) and (bias, y), in radians."""
    u, v = ([bias, *map(float, row)] for row in (x, y))
    u, v = ([t / math.hypot(*row) for t in row] for row in (u, v))
    apart = math.hypot(*(a - b for a, b in zip(u, v, strict=True)))
    together = math.hypot(*(a + b for a, b in zip(u, v, strict=True)))
    return 2.0 * math.atan2(apart, together)


def neural_tangent(theta: float, layers: int) -> float:
    """Of unit vectors at that angle (Arora et al. 2019, equations 6 to 9, with c_sigma = 2): Sigma
    of each layer and its derivative's are the arc-cosine kernels of degree 1 and 0 of the Sigma
    before (Cho and Saul 2009)."""
    Theta = math.cos(theta)
    for _ in range(layers):
        derivative = 1.0 - theta / math.pi
        Sigma = (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi
        Theta = Theta * derivative + Sigma
        theta = math.acos(min(1.0, Sigma))
    return Theta


@cache
def frequency(k: Kernel, seed: int, i: int, key: int) -> float:
    """omega of feature i for the column `key`, in radians for one unit of x."""
    if k.name == "gaussian":
        return normal(seed, FREQUENCY, i, key) / k.scale
    if k.name == "laplacian":
        return cauchy(seed, FREQUENCY, i, key) / k.scale
    if k.name == "cauchy":
        return laplace(seed, FREQUENCY, i, key) / k.scale
    if k.name == "linear":
        return normal(seed, FREQUENCY, i, key)
    return normal(seed, FREQUENCY, i, key) * stretch(k, seed, i) / k.scale


def stretch(k: Kernel, seed: int, i: int) -> float:
    """The random factor, common to all columns, that makes normals the law of an isotropic kernel:
    one over the root of a chi-squared for Matern's multivariate t, the root for its dual."""
    if k.name == "matern":
        degrees = round(2 * k.nu)
        return math.sqrt(degrees / chi2(seed, i, degrees))
    if k.name == "rational_quadratic":
        degrees = round(2 * k.nu)
        return math.sqrt(chi2(seed, i, degrees) / degrees)
    assert k.name in ("gaussian", "linear")
    return 1.0


def feature(
    k: Kernel, seed: int, i: int, x: Sequence[float], columns: Sequence[int | str]
) -> float:
    """phi_i(x) of the row x whose values stand in the named columns."""
    keys = [column_key(name) for name in columns]
    projection = sum(frequency(k, seed, i, key) * float(v) for key, v in zip(keys, x, strict=True))
    return wave(k, seed, i, projection)


def wave(k: Kernel, seed: int, i: int, projection: float) -> float:
    """phi_i of a point, from the projection on its frequency."""
    if k.name == "linear":
        return projection
    return math.sqrt(2.0) * math.cos(projection + 2.0 * math.pi * uniform(seed, PHASE, i, 0))


# --- Hadamard features ----------------------------------------------------------------------------


@cache
def sylvester(p: int) -> np.ndarray:
    """The Walsh-Hadamard matrix of p rows, a power of two, by Sylvester's recursion."""
    if p == 1:
        return np.ones((1, 1))
    half = sylvester(p // 2)
    return np.vstack([np.hstack([half, half]), np.hstack([half, -half])])


def sign(seed: int, turn: int, i: int, group: int) -> int:
    """The sign of feature i in a round of a group: one of the 64 bits of its chunk of 64 features.

    A call of the generator gives the bits of two chunks.
    """
    chunk, bit = divmod(i, 64)
    four = philox4x32((chunk // 2, SIGN + turn, group, 0), (seed & MASK, seed >> 32))
    word = four[2 * (chunk % 2) + bit // 32]
    return -1 if word >> (bit % 32) & 1 else 1


@cache
def block_transform(seed: int, block: int, group: int, p: int) -> np.ndarray:
    """H D3 H D2 H D1 of the p features of a block, as a matrix."""
    T = np.eye(p)
    for turn in range(3):
        D = np.diag([float(sign(seed, turn, i, group)) for i in range(block * p, block * p + p)])
        T = sylvester(p) @ D @ T
    return T


def length(seed: int, i: int, group: int, p: int) -> float:
    """About chi of p degrees of freedom: the cube root of a chi-squared is nearly normal."""
    z, variance = normal(seed, LENGTH, i, group), 2.0 / (9.0 * p)
    return math.sqrt(p * (1.0 - variance + z * math.sqrt(variance)) ** 3)


@cache
def hadamard_frequency(k: Kernel, seed: int, i: int, widths: tuple[int, ...]) -> np.ndarray:
    """omega of feature i for all columns, group after group, in radians for one unit of x."""
    parts = []
    for group, p in enumerate(widths):
        row = block_transform(seed, i // p, group, p)[i % p]
        direction = row / math.sqrt(sum(t * t for t in row.tolist()))
        parts.append(length(seed, i, group, p) * direction)
    return np.hstack(parts) * stretch(k, seed, i) / k.scale


def hadamard_feature(
    k: Kernel, seed: int, i: int, x: Sequence[float], widths: tuple[int, ...]
) -> float:
    """phi_i(x) of the row x, whose columns lie in groups of these widths, zeros behind them."""
    omega = hadamard_frequency(k, seed, i, widths)
    return wave(k, seed, i, sum(w * float(v) for w, v in zip(omega.tolist(), x, strict=False)))


# --- losses ---------------------------------------------------------------------------------------


def loss_value(name: str, f: float, y: float, **options: float) -> float:
    """One number predicted, one target; classes are y = -1 or +1."""
    if name == "squared":
        return 0.5 * (f - y) ** 2
    if name == "hinge":
        return max(0.0, 1.0 - y * f)
    if name == "squared_hinge":
        return 0.5 * max(0.0, 1.0 - y * f) ** 2
    if name == "logistic":
        margin = y * f
        return math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)
    if name == "huber":
        delta, r = options.get("delta", 1.0), abs(f - y)
        return 0.5 * r * r if r <= delta else delta * (r - 0.5 * delta)
    if name == "epsilon_insensitive":
        return max(0.0, abs(f - y) - options.get("epsilon", 0.1))
    assert name == "quantile"
    q = options.get("q", 0.5)
    return max(q * (y - f), (q - 1.0) * (y - f))


def loss_slope(name: str, f: float, y: float, **options: float) -> float:
    """The derivative in f; at a kink the subgradient 0."""
    if name == "squared":
        return f - y
    if name == "hinge":
        return -y if y * f < 1.0 else 0.0
    if name == "squared_hinge":
        return -y * max(0.0, 1.0 - y * f)
    if name == "logistic":
        margin = y * f
        if margin > 0:
            return -y * math.exp(-margin) / (1.0 + math.exp(-margin))
        return -y / (1.0 + math.exp(margin))
    if name == "huber":
        delta = options.get("delta", 1.0)
        return min(max(f - y, -delta), delta)
    if name == "epsilon_insensitive":
        epsilon = options.get("epsilon", 0.1)
        return 1.0 if f - y > epsilon else -1.0 if y - f > epsilon else 0.0
    assert name == "quantile"
    q = options.get("q", 0.5)
    return -q if f < y else 1.0 - q if f > y else 0.0


def rival(f: Sequence[float], y: int) -> int:
    """The strongest wrong class, the first one in a tie."""
    wrong = [j for j in range(len(f)) if j != y]
    return max(wrong, key=lambda j: (f[j], -j))


def one_against_all(y: int, j: int) -> float:
    return 1.0 if j == y else -1.0


def multiclass_value(name: str, f: Sequence[float], y: int) -> float:
    """One output for each class, y the number of the true one."""
    if name in ("squared", "logistic"):
        return sum(loss_value(name, f[j], one_against_all(y, j)) for j in range(len(f)))
    if name in ("hinge", "squared_hinge"):  # Crammer and Singer
        margin = max(0.0, 1.0 + f[rival(f, y)] - f[y])
        return margin if name == "hinge" else 0.5 * margin**2
    assert name == "softmax"
    top = max(f)
    return top + math.log(sum(math.exp(v - top) for v in f)) - f[y]


def multiclass_slopes(name: str, f: Sequence[float], y: int) -> list[float]:
    n = len(f)
    if name in ("squared", "logistic"):
        return [loss_slope(name, f[j], one_against_all(y, j)) for j in range(n)]
    if name in ("hinge", "squared_hinge"):
        slopes = [0.0] * n
        j = rival(f, y)
        margin = 1.0 + f[j] - f[y]
        if margin > 0.0:
            push = 1.0 if name == "hinge" else margin
            slopes[j], slopes[y] = push, -push
        return slopes
    assert name == "softmax"
    top = max(f)
    weights = [math.exp(v - top) for v in f]
    return [w / sum(weights) - (1.0 if j == y else 0.0) for j, w in enumerate(weights)]


def distance_to_kink(name: str, f: Sequence[float], y: float, **options: float) -> float:
    """How far f is from where the slopes jump (y: a class number when f has several outputs).

    Squared hinge counts only with several outputs, where the choice of the rival jumps; outputs
    that are all still zero are no near miss, since zero is exact.
    """
    if len(f) > 1:
        if name not in ("hinge", "squared_hinge"):
            return math.inf
        others = sorted((f[j] for j in range(len(f)) if j != y), reverse=True)
        tie = others[0] - others[1] if len(others) > 1 and any(others) else math.inf
        if name == "squared_hinge":
            return tie
        return min(tie, abs(1.0 + others[0] - f[int(y)]))
    if name == "hinge":
        return abs(1.0 - y * f[0])
    if name == "epsilon_insensitive":
        return abs(abs(f[0] - y) - options.get("epsilon", 0.1))
    if name == "quantile":
        return abs(f[0] - y)
    return math.inf


def probabilities(name: str, f: Sequence[float]) -> list[float]:
    """Of each class, for the losses that have a probability model (logistic and softmax)."""
    if name == "softmax":
        top = max(f)
        weights = [math.exp(v - top) for v in f]
    elif len(f) == 1:
        weights = [1.0 / (1.0 + math.exp(f[0])), 1.0 / (1.0 + math.exp(-f[0]))]
    else:
        weights = [1.0 / (1.0 + math.exp(-v)) for v in f]
    return [w / sum(weights) for w in weights]


# --- scaling of columns ---------------------------------------------------------------------------


def column_scaling(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Mean and factor of each column from all rows at once, in two passes; NaN is missing.

    A value becomes (x - mean) * factor: in units of its column's deviation (1/2 where only 0 and 1
    were seen, 1 where nothing varied), over the root of the sum of all variances in those units.
    """
    means, variances, deviations = [], [], []
    for column in zip(*rows, strict=True):
        known = [float(v) for v in column if not math.isnan(v)]
        mean = math.fsum(known) / len(known) if known else 0.0
        variance = math.fsum((v - mean) ** 2 for v in known) / len(known) if known else 0.0
        deviation = math.sqrt(variance)
        if all(v in (0.0, 1.0) for v in known):
            deviation = 0.5
        elif deviation <= 1e-12 * abs(mean):
            variance, deviation = 0.0, 1.0  # what varies is rounding
        means.append(mean)
        variances.append(variance)
        deviations.append(deviation)
    total = sum(v / s**2 for v, s in zip(variances, deviations, strict=True))
    return means, [1.0 / (s * math.sqrt(total if total > 0.0 else 1.0)) for s in deviations]


# --- quantiles of columns from a sample -----------------------------------------------------------

SAMPLE = 6  # stream tag
KNOT_LEVELS = [k / 31 for k in range(32)]


def bounded(v: float) -> float:
    """A value as the sample holds it."""
    return min(max(v, -1e30), 1e30)


def place(seed: int, i: int, capacity: int) -> int:
    """The place that event i draws; it is sampled if that is below the capacity."""
    four = philox4x32((i // 4 & MASK, SAMPLE, i // 4 >> 32, 0), (seed & MASK, seed >> 32))
    return four[i % 4] * min(i + 1, 16 * capacity) >> 32


def sampled(events: int, capacity: int, seed: int) -> list[int]:
    """Numbers of the events in the sample, by place (Vitter 1985, Algorithm R).

    While it fills, what is at the place drawn moves to the end, so that the order is random too.
    """
    places: list[int] = []
    for i in range(events):
        drawn = place(seed, i, capacity)
        if i < capacity:
            places.append(places[drawn] if drawn < i else i)
        if drawn < capacity:
            places[drawn] = i
    return places


def quantile(values: Sequence[float], level: Fraction) -> float:
    """Linear between the order statistics."""
    order = sorted(values)
    position = level * (len(order) - 1)
    low = math.floor(position)
    high = min(low + 1, len(order) - 1)
    return order[low] + (order[high] - order[low]) * float(position - low)


def deviation(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))


def robust_scale(values: Sequence[float]) -> float:
    spread = quantile(values, Fraction(9, 10)) - quantile(values, Fraction(1, 10))
    if spread > 0.0:
        return spread / 2.563
    low, high = quantile(values, Fraction(1, 100)), quantile(values, Fraction(99, 100))
    if low == high:
        low, high = min(values), max(values)
    return 1.0 if low == high else deviation([min(max(v, low), high) for v in values])


def rank(v: float, knots: Sequence[float]) -> float:
    """The level of a value by the knots; the middle of the levels where it equals several."""
    equal = [KNOT_LEVELS[k] for k in range(32) if knots[k] == v]
    if equal:
        return min((equal[0] + equal[-1]) / 2, 0.999)
    if v < knots[0]:
        return 0.0
    if v > knots[-1]:
        return 0.999
    k = max(k for k in range(32) if knots[k] < v)
    return min((k + (v - knots[k]) / (knots[k + 1] - knots[k])) / 31, 0.999)


class Quantiles:
    """What is in use for each column, made anew from the sample and replaced where it has moved."""

    def __init__(self, d: int, seed: int = 0, capacity: int = 2048) -> None:
        self.seed, self.capacity = seed, capacity
        self.center, self.inverse = [0.0] * d, [1.0] * d
        self.knots, self.indicator = [[0.0] * 32 for _ in range(d)], [False] * d
        self.distance, self.version = 1.0, 0

    def estimate(self, events: Sequence[Sequence[float]]) -> None:
        """The estimate after these, which are all events of the stream so far."""
        places = sampled(len(events), self.capacity, self.seed)
        ever = [i for i in range(len(events)) if place(self.seed, i, self.capacity) < self.capacity]
        changed = False
        for j in range(len(self.center)):
            values = [bounded(events[i][j]) for i in places if not math.isnan(events[i][j])]
            indicator = all(
                events[i][j] in (0.0, 1.0) for i in ever if not math.isnan(events[i][j])
            )
            if values:
                changed |= self.estimate_column(j, values, indicator)
        distance = self.new_distance([events[i] for i in places])
        if abs(distance / self.distance - 1.0) > 0.15:
            self.distance, changed = distance, True
        self.version += changed

    def estimate_column(self, j: int, values: Sequence[float], indicator: bool) -> bool:
        center = 0.0 if indicator else quantile(values, Fraction(1, 2))
        scale = 0.5 if indicator else robust_scale(values)
        turned = indicator != self.indicator[j]
        moved = (
            turned
            or abs(center - self.center[j]) * self.inverse[j] > 0.15
            or abs(scale * self.inverse[j] - 1.0) > 0.15
        )
        if moved:
            self.center[j], self.inverse[j], self.indicator[j] = center, 1.0 / scale, indicator
        knots = [quantile(values, Fraction(k, 31)) for k in range(32)]
        shift = max(abs(rank(v, self.knots[j]) - rank(v, knots)) for v in knots + self.knots[j])
        reranked = turned or (not indicator and shift > 0.03)
        if reranked:
            self.knots[j] = knots
        return moved or reranked

    def scaled(self, x: Sequence[float]) -> list[float]:
        return [
            0.0 if math.isnan(v) else min(max((bounded(v) - c) * s, -8.0), 8.0)
            for v, c, s in zip(x, self.center, self.inverse, strict=True)
        ]

    def new_distance(self, rows: Sequence[Sequence[float]]) -> float:
        """Of each row and the next few in their random order, cyclically."""
        m = len(rows)
        if m < 2:
            return 1.0
        Z = [self.scaled(x) for x in rows]
        steps = range(1, min(m // 2, math.ceil(2048 / m)) + 1)
        distances = [math.dist(Z[i], Z[(i + k) % m]) for k in steps for i in range(m)]
        return quantile(distances, Fraction(1, 2)) or 1.0


class RobustScaling:
    """Columns in units of their quantiles, far values compressed, the mean squared distance 2."""

    def __init__(self, d: int, seed: int) -> None:
        self.quantiles, self.unit = Quantiles(d, seed), 1.0
        self.events: list[list[float]] = []

    def take(self, x: Sequence[float]) -> None:
        """Take in an event; estimates are made after event 1, 2, 4, 8, ..."""
        self.events.append([float(v) for v in x])
        n = len(self.events)
        if n & (n - 1):
            return
        self.quantiles.estimate(self.events)
        total = 0.0
        for column in zip(*(self.compressed(row) for row in self.events), strict=True):
            mean = math.fsum(column) / n
            total += math.fsum((v - mean) ** 2 for v in column) / n
        unit = 1.0 / math.sqrt(total) if total else 1.0
        if abs(unit / self.unit - 1.0) > 0.05:
            self.unit = unit

    def compressed(self, x: Sequence[float]) -> list[float]:
        """A row in scales from the centers, compressed to less than 6 beyond 3."""
        found = []
        for v, c, s in zip(x, self.quantiles.center, self.quantiles.inverse, strict=True):
            z = 0.0 if math.isnan(v) else (v - c) * s
            found.append(math.copysign(6 - 9 / abs(z), z) if abs(z) > 3 else z)
        return found

    def scaled(self, x: Sequence[float]) -> list[float]:
        return [z * self.unit for z in self.compressed(x)]


# --- Algorithms 1 and 2 ---------------------------------------------------------------------------


class DoublyStochastic:
    """Algorithm 1 (learn) and Algorithm 2 (decision) as printed, a straight loop over the steps.

    Step t takes a mini-batch of events and a block of features, "a mini-batch of points and random
    functions at each step" (section 4); the paper's own algorithm is one of each. `step` is
    ("inverse_time", theta), ("constant", gamma) or ("adagrad", gamma). Labels are class numbers in
    order of arrival, or floats when `classification` is false.
    """

    def __init__(
        self,
        k: Kernel,
        loss: str,
        seed: int,
        step: tuple[str, float],
        nu: float = 0.0,
        block_size: int = 1,
        max_features: int | None = None,
        classification: bool = True,
        columns: Sequence[int | str] = (),
        widths: tuple[int, ...] | None = None,
        **options: float,
    ) -> None:
        """With `widths` the features are Hadamard features of such groups."""
        self.kernel, self.loss, self.seed, self.step, self.nu = k, loss, seed, step, nu
        self.block_size, self.max_features = block_size, max_features
        self.classification, self.options = classification, options
        self.columns, self.widths = tuple(columns), widths
        self.t = 0
        self.classes = 0
        self.alpha = np.zeros((0, 1))  # (features, outputs)
        self.squares = np.zeros((0, 1))  # AdaGrad's sums of squared gradients
        self.frequencies = np.zeros((0, len(self.columns)))
        self.phases = np.zeros(0)
        self.nearest_kink = math.inf

    def features(self, x: Sequence[float], start: int, stop: int) -> np.ndarray:
        for i in range(len(self.phases), stop):  # "Sample omega_i with seed i"
            if self.widths is None:
                row = [frequency(self.kernel, self.seed, i, column_key(c)) for c in self.columns]
            else:
                omega = hadamard_frequency(self.kernel, self.seed, i, self.widths)
                row = omega[: len(self.columns)].tolist()
            self.frequencies = np.vstack([self.frequencies, row])
            self.phases = np.append(self.phases, uniform(self.seed, PHASE, i, 0))
        projections = self.frequencies[start:stop] @ np.asarray(x, dtype=float)
        if self.kernel.name == "linear":
            return projections
        return math.sqrt(2.0) * np.cos(projections + 2.0 * math.pi * self.phases[start:stop])

    def decision(self, x: Sequence[float]) -> np.ndarray:
        """Algorithm 2: f(x) is the sum of alpha_i phi_i(x)."""
        n = len(self.alpha)
        return self.features(x, 0, n) @ self.alpha

    def slopes(self, f: np.ndarray, y: float) -> list[float]:
        if self.classification and (self.loss == "softmax" or self.classes > 2):
            self.note_kink(f, y)
            return multiclass_slopes(self.loss, f.tolist(), int(y))
        target = one_against_all(int(y), 1) if self.classification else y
        self.note_kink(f, target)
        return [loss_slope(self.loss, float(f[0]), target, **self.options)]

    def note_kink(self, f: np.ndarray, y: float) -> None:
        distance = distance_to_kink(self.loss, f.tolist(), y, **self.options)
        self.nearest_kink = min(self.nearest_kink, distance)

    def see_classes(self, count: int) -> None:
        """A third class turns the one output f into [-f, f, 0], halved where margins are
        differences of two outputs, so that what was learned of the first two classes stays."""
        before = self.alpha.shape[1]
        self.classes = max(self.classes, count)
        outputs = self.classes if self.loss == "softmax" or self.classes > 2 else 1
        if outputs > 1 and before == 1 and self.loss != "softmax":
            share = 0.5 if self.loss in ("hinge", "squared_hinge") else 1.0
            self.alpha = np.hstack([-share * self.alpha, share * self.alpha])
            self.squares = np.hstack([self.squares, self.squares])
        missing = outputs - self.alpha.shape[1]
        if missing > 0:
            self.alpha = np.hstack([self.alpha, np.zeros((len(self.alpha), missing))])
            self.squares = np.hstack([self.squares, np.zeros((len(self.squares), missing))])

    def learn(self, X: Sequence[Sequence[float]], y: Sequence[float]) -> None:
        """One step of Algorithm 1 on one mini-batch."""
        self.t += 1
        if self.classification:
            self.see_classes(int(max(y)) + 1)
        m = self.block_size
        block = self.t - 1
        if self.max_features is not None:
            block %= math.ceil(self.max_features / m)
        start, stop = block * m, block * m + m
        if self.max_features is not None:
            stop = min(stop, self.max_features)

        # Steps 2 to 4: the mini-batch, its features and its predictions.
        gradient = np.zeros((stop - start, self.alpha.shape[1]))
        for row, label in zip(X, y, strict=True):
            slopes = self.slopes(self.decision(row), label)
            gradient += np.outer(self.features(row, start, stop), slopes) / len(X)

        if stop > len(self.alpha):
            grown = np.zeros((stop - len(self.alpha), self.alpha.shape[1]))
            self.alpha = np.vstack([self.alpha, grown])
            self.squares = np.vstack([self.squares, grown])

        # Step 6: the past decays, a revisited block's old value included.
        rule, size = self.step
        if rule == "inverse_time":
            gamma = decay = size / self.t
        elif rule == "constant":
            gamma = decay = size
        else:
            assert rule == "adagrad"
            gamma, decay = size, size / math.sqrt(self.t)
        self.alpha = (1.0 - decay * self.nu) * self.alpha

        # Step 5: the new block's coefficients.
        if rule == "adagrad":
            self.squares[start:stop] += gradient**2
            gradient = gradient / (np.sqrt(self.squares[start:stop]) + 1e-8)
        self.alpha[start:stop] -= gamma / (stop - start) * gradient


class Scaled:
    """A learner of events in units of their spread: predict, take in, learn, one by one.

    An event is predicted in the scale of all learned before it, and a number given back in the
    label's own unit; then event and label are taken into the scale, and learned as scaled by that.
    """

    def __init__(self, learner: DoublyStochastic, batch_size: int = 1) -> None:
        self.learner, self.batch_size = learner, batch_size
        self.scale: RobustScaling | None = None
        self.labels: list[list[float]] = []
        self.gathered: list[tuple[list[float], float]] = []

    def decision(self, x: Sequence[float]) -> list[float]:
        if self.scale is None:
            return [0.0] * self.learner.alpha.shape[1]
        f = self.learner.decision(self.scale.scaled(x)).tolist()
        if not self.learner.classification:
            (mean,), (factor,) = column_scaling(self.labels)
            f = [f[0] / factor + mean]
        return f

    def learn(self, x: Sequence[float], y: float) -> None:
        if self.scale is None:
            self.scale = RobustScaling(len(x), self.learner.seed)
        self.scale.take(x)
        if self.learner.classification:
            self.learner.see_classes(int(y) + 1)
        else:
            self.labels.append([float(y)])
            (mean,), (factor,) = column_scaling(self.labels)
            y = (y - mean) * factor
        self.gathered.append((self.scale.scaled(x), y))
        if len(self.gathered) == self.batch_size:
            X, numbers = zip(*self.gathered, strict=True)
            self.gathered = []
            self.learner.learn(X, numbers)


# --- experts of a pool ----------------------------------------------------------------------------


def rule_step(kind: str, phi, a, squares, rate: float, g: float):
    """Coefficients and sums of squares after one output's slope g: AdaGrad or normalised LMS."""
    phi, a, squares = (np.asarray(v, dtype=float) for v in (phi, a, squares))
    if kind == "normalized":
        return a - rate * g * phi / (phi @ phi + 1e-6), squares
    squares = squares + (g * phi) ** 2
    return a - rate * g * phi / np.maximum(np.sqrt(squares), 1e-6), squares


class Bettor:
    """One coefficient that bets on the sign of its slopes (Cutkosky and Orabona 2018, Algorithm 1),
    in units of the largest so far, with no less wealth than it began with.

    It begins with as much as adds `wealth` to an output whose slopes are as large as they get.
    """

    def __init__(self, wealth: float) -> None:
        self.beginning, self.gain = wealth, 0.0
        self.part, self.squares, self.largest = 0.0, 0.0, 0.0
        self.elsewhere = 0.0
        """What the coefficient is beside the bet, in the bet's unit."""
        self.largest_of_output = 0.0

    @property
    def coefficient(self) -> float:
        if self.largest == 0.0:
            return 0.0
        unit = self.beginning * self.largest_of_output / self.largest
        return unit * (self.elsewhere + self.part * (1.0 + self.gain))

    def learn(self, slope: float, feature: float) -> None:
        """Take in the slope of the loss in the output, and the feature of the coefficient."""
        self.largest_of_output = max(self.largest_of_output, abs(slope))
        self.largest = max(self.largest, abs(slope * feature))
        if self.largest == 0.0:
            return
        coin = -slope * feature / self.largest
        self.gain = max((1.0 + self.gain) * (1.0 + self.part * coin) - 1.0, 0.0)
        self.gain = min(self.gain, 1e9)
        gradient = coin / (1.0 + self.part * coin)
        self.squares += gradient**2
        step = 2.0 / (2.0 - math.log(3.0)) * gradient / (1.0 + self.squares)
        self.part = min(max(self.part + step, -0.5), 0.5)


def bins_of(ranks, shifts, bins: int) -> list[int]:
    """The bin of each rank; the one after the last where it is missing."""
    return [
        bins + 1 if r < 0 else math.floor(r * bins + s) for r, s in zip(ranks, shifts, strict=True)
    ]


def exact_cell(places: Sequence[int], bins: int) -> int:
    """The number of a combination of bins, the first column counting fastest."""
    return sum(place * (bins + 2) ** j for j, place in enumerate(places))


def hashed_cell(places: Sequence[int], factors: Sequence[int], bits: int) -> int:
    """The leading bits of the sum of products modulo 2^32 (Dietzfelbinger 1996)."""
    return sum(p * (f & MASK) for p, f in zip(places, factors, strict=True)) % 2**32 >> (32 - bits)


class Grids:
    """Tables of one rule: AdaGrad on cells, exponentiated gradient on the tables' factors."""

    def __init__(self, tables: int, outputs: int, rate: float, pace: float) -> None:
        self.rate, self.pace, self.outputs = rate, pace, outputs
        self.a: dict[tuple[int, int], np.ndarray] = {}
        self.squares: dict[tuple[int, int], float] = {}
        self.factors, self.spread = np.ones(tables), np.full(tables, 1e-3)

    def forecast(self, cells: Sequence[int]) -> np.ndarray:
        total = np.zeros(self.outputs)
        for t, cell in enumerate(cells):
            total = total + self.factors[t] * self.a.get((t, cell), np.zeros(self.outputs))
        return total

    def learn(self, cells: Sequence[int], g: np.ndarray) -> None:
        for key in enumerate(cells):
            a, w = self.a.get(key, np.zeros(self.outputs)), self.factors[key[0]]
            slope = float(g @ a)
            self.squares[key] = self.squares.get(key, 0.0) + float(g @ g)
            self.a[key] = a - self.rate * w / (math.sqrt(self.squares[key]) + 1.0) * g
            s = self.spread[key[0]] = 0.999 * self.spread[key[0]] + slope**2
            w *= math.exp(-self.pace * slope / math.sqrt(s + 1e-12))
            self.factors[key[0]] = min(max(w, 0.02), 4.0)


def smoother_weights(D, median: float) -> list[np.ndarray]:
    """Gaussians of bandwidths that halve, then powers of the inverse distance."""
    D = np.asarray(D, dtype=float)
    gaussians = [np.exp(-2.0 * 4.0**n * (D - D.min()) / median**2) for n in range(3)]
    near = 1e-4 * median**2
    return gaussians + [((D.min() + near) / (D + near)) ** 2 ** (n + 1) for n in range(4)]


def least_squares(rows, targets, forget: float) -> np.ndarray:
    """The minimiser of the discounted squares, with the discounted square of the coefficients."""
    d = len(rows[0])
    n = len(rows)
    weights = forget ** np.arange(n - 1, -1, -1)
    X = np.asarray(rows, dtype=float)
    G = X.T @ (weights[:, None] * X) + forget**n * np.eye(d)
    return np.linalg.solve(G, X.T @ (weights * np.asarray(targets, dtype=float)))


def fixed_share(weights, losses, active, alpha: float) -> np.ndarray:
    """Weights after an event; experts asleep lose what the others lose together."""
    w, losses = np.asarray(weights, dtype=float), np.asarray(losses, dtype=float)
    on = np.asarray(active, dtype=bool)
    together = -math.log((w[on] * np.exp(-losses[on])).sum() / w[on].sum())
    w = w * np.exp(-np.where(on, losses, together))
    return (1 - alpha) * w / w.sum() + alpha / len(w)


def number_cost(name: str | None, parameter: float, error: float) -> float:
    """What the mixing loses by an error of a number, in units of the labels' spread."""
    a = abs(error)
    if name == "squared":
        return min(a**2 / 4.0, 16.0)
    if name == "huber":
        loss = a**2 / 2.0 if a <= parameter else parameter * (a - parameter / 2.0)
        return min(max(2.0 / parameter, 0.5) * loss, 16.0)
    if name == "quantile":
        return min(4.0 * max((1.0 - parameter) * error, -parameter * error), 16.0)
    return min(2.0 * a, 16.0)


@dataclass
class Evidence:
    """Whether the mixture with external experts is better than that without, after some labels."""

    spared: float = 0.0
    fewer: float = 0.0
    apart: float = 0.0

    @property
    def full_is_better(self) -> bool:
        return self.spared > 0.0 and self.fewer >= -math.sqrt(self.apart)

    def learn(self, own, full, label: int | None, number: float | None) -> None:
        """Take in what both said: probabilities and the class's number, or numbers and theirs."""
        if label is None:
            lost = [number_cost(None, 0.0, said[0] - number) for said in (own, full)]
            wrong = [0.0, 0.0]
        else:
            both = [[1.0 - p[0], p[0]] if len(p) == 1 else list(p) for p in (own, full)]
            lost = [-math.log(max(p[label], 1e-4)) for p in both]
            wrong = [float(p[label] < max(p)) for p in both]
        self.spared = 0.999 * self.spared + lost[0] - lost[1]
        self.fewer = 0.999 * self.fewer + wrong[0] - wrong[1]
        self.apart = 0.999 * self.apart + abs(wrong[0] - wrong[1])


def number_slope(name: str | None, parameter: float, error: float, size: float = 1.0) -> float:
    """The slope of an expert's loss: of squares up to an error, or of the pinball loss.

    The latter has the mean absolute size that is given where a part q of the errors is negative,
    unless one of its two values would be above 3.
    """
    if name == "quantile":
        mean = 2.0 * parameter * (1.0 - parameter)
        unit = min(size / mean, 3.0 / max(parameter, 1.0 - parameter))
        return unit * ((error > 0.0) * (1.0 - parameter) - (error < 0.0) * parameter)
    longest = {"squared": 20.0, "huber": min(parameter, 20.0)}.get(name or "", 3.0)
    return min(max(error, -longest), longest)


class Offsets:
    """What is added to each expert's mean so that a part q of the labels is below."""

    def __init__(self, experts: int, q: float) -> None:
        self.q, self.offsets = q, np.zeros(experts)
        self.sizes, self.mixture = np.ones(experts), 1.0

    def learn(self, error: float, y: float, means, on, pinball) -> np.ndarray:
        """The slopes that the experts descend, from the mixture's error and their means."""
        self.mixture = 0.99 * self.mixture + 0.01 * abs(error)
        slopes = np.zeros(len(means))
        for e in np.flatnonzero(on):
            missed = means[e] + self.offsets[e] - y
            self.sizes[e] = 0.99 * self.sizes[e] + 0.01 * abs(missed)
            slope = number_slope("quantile", self.q, missed, self.sizes[e])
            self.offsets[e] -= 0.01 * slope
            slopes[e] = slope if pinball[e] else number_slope(None, 0.0, means[e] - y)
        return slopes


def calibrated(task: str, said, factor: float) -> np.ndarray:
    """What an opinion says if it is made so many times as sure."""
    said = factor * np.asarray(said, dtype=float)
    if task == "numbers":
        return said
    if task == "binary":
        return 1.0 / (1.0 + np.exp(-said))
    return np.exp(said) / np.exp(said).sum()


def calibration_step(task: str, said, factor: float, curvature: float, y: float):
    """The factor after a Newton step on the loss, and the sum of curvatures that it is over."""
    said = np.asarray(said, dtype=float)
    p = calibrated(task, said, factor)
    if task == "numbers":
        slope, bend = np.clip(p[0] - y, -3, 3) * said[0], said[0] ** 2
    elif task == "binary":
        slope, bend = (p[0] - y) * said[0], p[0] * (1 - p[0]) * said[0] ** 2
    else:
        slope, bend = p @ said - said[int(y)], p @ said**2 - (p @ said) ** 2
    curvature = 0.999 * curvature + bend
    return float(np.clip(factor - slope / (curvature + 10.0), 0.0, 5.0)), curvature


class Reliability:
    """How often probabilities came true, by their logits: -14, -13.5, ... 14."""

    def __init__(self) -> None:
        self.seen: dict[float, float] = {}
        self.true: dict[float, float] = {}

    def shares(self, p: float) -> dict[float, float]:
        """How much a probability counts to each of the two knots next to it."""
        logit = math.log(p / (1.0 - p))
        below = math.floor(2.0 * logit) / 2.0
        part = (logit - below) / 0.5
        return {below: 1.0 - part, below + 0.5: part}

    def corrected(self, said: Sequence[float]) -> list[float]:
        """What has come true of such probabilities; of several, parts of 1."""
        found = []
        for p in said:
            p = min(max(p, 1e-6), 1.0 - 1e-6)
            shares = self.shares(p)
            seen = sum(share * self.seen.get(knot, 0.0) for knot, share in shares.items())
            true = sum(share * self.true.get(knot, 0.0) for knot, share in shares.items())
            found.append(min(max((true + 20.0 * p) / (seen + 20.0), 1e-6), 1.0 - 1e-6))
        return found if len(found) == 1 else [p / sum(found) for p in found]

    def learn(self, said: Sequence[float], y: int, weight: float = 1.0) -> None:
        """Count an event of this class; older ones fade, less where it counts less."""
        for sums in (self.seen, self.true):
            for knot in sums:
                sums[knot] *= 0.9998**weight
        for k, p in enumerate(said):
            came = y == 1 if len(said) == 1 else y == k
            for knot, share in self.shares(min(max(p, 1e-6), 1.0 - 1e-6)).items():
                self.seen[knot] = self.seen.get(knot, 0.0) + weight * share
                self.true[knot] = self.true.get(knot, 0.0) + weight * share * came


def product_slopes(task: str, L, prediction, y) -> np.ndarray:
    """Gradient in the weights of what a product of experts loses (squared error / 2: numbers)."""
    L = np.asarray(L, dtype=float)
    if task == "classes":
        return L @ np.asarray(prediction) - L[:, int(y)]
    return (prediction[0] - y) * L[:, 0]


def balanced_weights(labels: Sequence[int], classes: int, horizon: int) -> list[float]:
    """One over the share of each class among labels, the old ones of which fade."""
    shares = [0.0] * classes
    for n, label in enumerate(labels, start=1):
        rate = 1 / min(n, horizon)
        shares = [(1 - rate) * s + rate * (k == label) for k, s in enumerate(shares)]
    n = min(len(labels), horizon)
    return [1 / max((n * s + 1) / (n + classes), 0.005) for s in shares]


def cheapest(p: Sequence[float], weights: Sequence[float]) -> int:
    """The class whose expected weighted error is least: the other classes' weights times p."""
    costs = [
        sum(w * q for j, (w, q) in enumerate(zip(weights, p, strict=True)) if j != k)
        for k in range(len(p))
    ]
    return costs.index(min(costs))


# --- reviews of a pool ----------------------------------------------------------------------------


class PageHinkley:
    """A rise of the mean (Page 1954; Hinkley 1971) in deviations, by all values since an alarm.

    Everything is computed anew from these values, the mean and deviation before each of them too.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.values: list[float] = []

    def update(self, value: float) -> bool:
        """Take in a value; return whether that is an alarm."""
        self.values.append(value)
        total = least = 0.0
        for n in range(8, len(self.values)):
            before = np.array(self.values[:n])
            deviation = before.std(ddof=1) + 1e-9 * abs(before.mean()) + 1e-300
            total += min((self.values[n] - before.mean()) / deviation, 4.0) - 0.2
            least = min(least, total)
        if total - least > self.limit:
            self.values.clear()
            return True
        return False


class Dozing:
    """Which banks are active: one of them, and the running loss of all."""

    def __init__(self) -> None:
        self.gain, self.loss, self.age, self.nap = 0.0, 0.0, 0, 64
        self.active = True

    def review(self, gain: float, loss: float) -> bool:
        """Take in what its lack would have cost and the loss; return whether it wakes up."""
        self.loss = self.loss * 31 / 32 + loss / 32
        self.age += 1
        if self.active:
            self.gain = self.gain * 31 / 32 + gain / 32
            if self.age >= 64 and self.gain >= 0.002 * self.loss:
                self.nap = 64
            elif self.age >= 64:
                self.active, self.age = False, 0
        elif self.age >= self.nap:
            self.active, self.gain, self.age = True, 0.0, 0
            self.nap = min(2 * self.nap, 1024)
            return True
        return False
