"""A pool of experts: its arrays, side by side in one piece of memory, and the table of them.

Labels that keep coming would have all arrays made anew for each of them, so there is room for
classes that are still to come. Where outputs are the leading axis, or nothing is kept from event to
event, an array is the beginning of a longer piece of memory. The others, `SPACED`, have rows to
spare, which the compiled loops skip. So sums are over the classes there are, in the same order
whatever there is room for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import backends
from streamk.backends import BINARY, CHUNK, CLASSES, LINE, NUMBERS, Law, banks, loops, pool_arrays
from streamk.backends.banks import (
    ADAGRAD,
    BANKS,
    BINNING,
    GAUSSIAN,
    GAUSSIAN_FEATURES,
    GAUSSIAN_SHARPNESS,
    LINEAR,
    NEWTON_COLUMNS,
    WINDOW,
    WINDOW_BYTES,
    WINDOW_EVENTS,
)
from streamk.backends.pool_arrays import DEFAULT, FLAGGED_BANKS
from streamk.learners.multi_kernel import binning_tables
from streamk.learners.multi_kernel.options import LOSS_KINDS
from streamk.losses import Loss
from streamk.scaling.quantiles import KNOTS, RunningQuantiles

ALPHAS = (1e-3, 1e-3)
"""Rates of change of the fixed shares: of predictions as they are, and of calibrated ones."""
GRADIENT_RATE = 2e-3
NEWTON_STARTS = (0.01, 0.1)
NEWTON_FORGETS = (0.9998, 0.999)
"""Of the products of experts: one that moves along gradients, the others by Newton steps."""
_GAP = 1024
"""Bytes between two arrays, and before the first and after the last one. LLVM gives a loop with
stores two versions, and takes the one without vectors where an array begins less than some hundred
bytes after another. Sums then round in another way, so what is learned would depend on where
the arrays happen to lie."""
_LARGEST = 1 << 20
"""Bytes of an array that stays where it is: nothing lies that close before it by chance that a
loop uses with it."""


def side_by_side(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return copies of arrays that lie in one piece of memory; large and empty ones as they are.

    Examples
    --------
    >>> import numpy as np
    >>> found = side_by_side({"a": np.ones(3), "b": np.zeros((2, 2), np.float32)})
    >>> found["a"], found["b"].shape
    (array([1., 1., 1.]), (2, 2))
    >>> (found["b"].ctypes.data - found["a"].ctypes.data) >= 1024
    True
    """
    small = {name: a for name, a in arrays.items() if 0 < a.nbytes < _LARGEST}
    room = sum(-(-a.nbytes // LINE) * LINE + _GAP for a in small.values())
    memory = np.zeros(room + _GAP + LINE, np.uint8)
    at = _GAP + -memory.ctypes.data % LINE
    found = dict(arrays)
    for name, array in small.items():
        place = memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        place[...] = array
        found[name] = place
        at += -(-array.nbytes // LINE) * LINE + _GAP
    return found


_FORECASTING = tuple(
    each.name.upper() for each in (*pool_arrays.FORECASTING, *pool_arrays.OWN_FORECASTING)
)

SPACED = {
    each.name.upper(): each.shape.index("OUTPUT_ROOM")
    for each in pool_arrays.LEARNED
    if "OUTPUT_ROOM" in each.shape
}
"""Axis of the outputs of arrays with rows to spare; cells of random binning have room, too."""


def fitted(
    allocated: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """Return arrays of such sizes, views of the beginnings of those with room for more.

    Parameters
    ----------
    allocated : mapping of str to array
        All arrays of a pool by their places, with room.
    sizes : mapping of str to int
        See `streamk.backends.pool_arrays`.
    """
    found = dict(allocated)
    for each in pool_arrays.ARRAYS:
        array = allocated.get(each.name.upper())
        if array is not None and array.shape != each.lengths(sizes):
            shape = each.lengths(sizes)
            found[each.name.upper()] = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    return found


def sizes_of(
    task: int,
    classes: int,
    columns: int,
    capacity: int,
    output_room: int,
    external_names: Sequence[str],
    loss: Loss | None,
    most_cells: int,
) -> dict[str, int]:
    """Return the sizes of a pool, see `streamk.backends.pool_arrays`, without making it."""
    outputs = classes if task == CLASSES else 1
    cells = binning_tables.cells_of(columns, outputs)
    products = 1 + len(NEWTON_STARTS)
    pooled = len(ALPHAS) + products
    sizes = {
        "TASK": task,
        "COLUMNS": capacity,
        "GAUSSIAN_FEATURES": GAUSSIAN_FEATURES,
        "GAUSSIAN_BANDWIDTHS": len(GAUSSIAN_SHARPNESS),
        "OUTPUTS": outputs,
        "CLASSES": 1 if task == NUMBERS else classes,
        "BINNING_TABLES": binning_tables.TABLES,
        "BINNING_GROUPS": len(binning_tables.GROUPS),
        "BINNING_MEMBERS": int(binning_tables.widths(columns).sum()),
        "BINNING_SLOTS": int(binning_tables.starts_of(cells, most_cells)[-1]),
        "WINDOW_EVENTS": max(16, min(WINDOW_EVENTS, WINDOW_BYTES // (4 * capacity))),
        "LINEAR_RULES": len(LINEAR.rules),
        "GAUSSIAN_RULES": len(GAUSSIAN.rules),
        "BINNING_RULES": len(BINNING.rules),
        "NEWTON_FEATURES": capacity + 1 if capacity <= NEWTON_COLUMNS else 0,
        "N_KNOTS": KNOTS,
        "MIXERS_SHARE": len(ALPHAS),
        "MIXERS_PRODUCT": products,
        "MIXERS_POOLED": pooled,
        "MIXERS": pooled + (1 if task == NUMBERS else 2),
        "LOSS": DEFAULT if loss is None else LOSS_KINDS[loss.name],
        "EXTERNAL": len(external_names),
        "OUTPUT_ROOM": output_room,
    }
    sizes["EXPERTS"] = len(banks.banks_of(sizes)) + len(external_names)
    return pool_arrays.derived(sizes)


class PoolTable:
    """Arrays and sizes by the names of their places, and the table that says where they are."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.allocated: dict[str, NDArray[Any]] = {}
        """The arrays with room for outputs that are still to come."""
        self.sizes: dict[str, int] = {}
        self._workspaces: list[Workspace] = []

    def _lay_out(self) -> None:
        """Put the arrays side by side, and write sizes and addresses into the table."""
        self.allocated = side_by_side(self.arrays)
        at = loops.slot
        self._table = np.zeros(at.SIZE, dtype=np.int64)
        self._fit()

    def _fit(self) -> None:
        """Take the arrays for the outputs that there are."""
        self.arrays = fitted(self.allocated, self.sizes)
        self.__dict__.pop("table", None)  # which is of another one
        self._point()

    def widen(self, classes: int, **fresh: NDArray[Any]) -> None:
        """Become a table of so many outputs and classes, after a copy was made; there is room.

        The `fresh` arrays take the place of those of the same names.
        """
        self.allocated = self.allocated | side_by_side(fresh)
        self.sizes = pool_arrays.derived(self.sizes | {"OUTPUTS": classes, "CLASSES": classes})
        self._table, self._workspaces = self._table.copy(), []
        self._table[loops.slot.MIXED_IS_CURRENT] = 0
        self._fit()

    def replace(self, **fresh: NDArray[Any]) -> None:
        """Replace arrays by others of the same names, for the same outputs."""
        self.allocated = self.allocated | side_by_side(fresh)
        self._fit()

    def _point(self) -> None:
        at = loops.slot
        for name, size in self.sizes.items():
            self._table[at.PLACES[name]] = size
        for name, array in self.arrays.items():
            self._table[at.PLACES[name]] = array.ctypes.data

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """The argument of the compiled loops, which are compiled or loaded on its first use."""
        for place, address in loops.ahead.addresses().items():
            self._table[place] = address
        return self._table

    @property
    def count(self) -> int:
        """Events in the window."""
        return int(self._table[loops.slot.COUNT])

    @property
    def next(self) -> int:
        """Row of the window that the next event takes."""
        return int(self._table[loops.slot.NEXT])

    @property
    def usual_lag(self) -> float:
        """About how many events are learned between the prediction and the learning of one."""
        return float(self.arrays["LATE_ERRORS"][-1])

    def set_lag(self, events: int) -> None:
        """Say how many events were learned since the next one was predicted."""
        self._table[loops.slot.LAG] = events

    def set_window(self, count: int, following: int) -> None:
        """Say how many events the window has, and which row the next one takes."""
        at = loops.slot
        self._table[at.COUNT], self._table[at.NEXT] = count, following

    @contextmanager
    def workspace(self) -> Iterator[NDArray[np.int64]]:
        """Lend a workspace to a thread that forecasts by this pool: a table of its own."""
        try:
            mine = self._workspaces.pop()
        except IndexError:
            mine = Workspace(self)
        yield mine.table_of(self)
        self._workspaces.append(mine)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""
        return sum(array.nbytes for array in self.allocated.values())


class Workspace:
    """The workspace of a thread that forecasts by a pool."""

    def __init__(self, pool: PoolTable) -> None:
        there = [name for name in _FORECASTING if name in pool.arrays]
        self._arrays = side_by_side({name: np.zeros_like(pool.arrays[name]) for name in there})
        self._arrays["ONES"][:] = 1.0
        at = loops.slot
        self._at = np.array([at.PLACES[name] for name in self._arrays])
        self._addresses = np.array([array.ctypes.data for array in self._arrays.values()])

    def table_of(self, pool: PoolTable) -> NDArray[np.int64]:
        """Return the pool's table as it is, but for what is written."""
        table = pool.table.copy()
        table[self._at] = self._addresses
        return table


_CLOSEST = 1e-3
"""Median distance at least, whose powers single precision holds."""
_RESTART = 0.1
"""Factor of the sums of squared slopes, and of what was counted, when experts begin anew."""
_FEWEST = 50.0
"""Probabilities about a knot, of which it is told how many came true."""


class ExpertPool(PoolTable):
    """The experts' arrays for so many columns and outputs.

    Parameters
    ----------
    keys : uint64 array of shape (d,)
        Of the columns, see `streamk.features.columns.column_keys`.
    task : {BINARY, CLASSES, NUMBERS}
    classes : int
        2 or more for classification.
    seed : int
    capacity : int, optional
        Columns that there is room for; d by default.
    class_room : int, optional
        Classes that there is room for; `classes` by default.
    loss : Loss, optional
        By which numbers are learned and mixed.
    external_names : tuple of str, optional
        Of the experts whose outputs come from elsewhere, see `set_external_outputs`.
    most_cells : int, optional
        Of a table of random binning, see `binning_tables.folds`; all by default.
    """

    def __init__(
        self,
        keys: NDArray[np.uint64],
        *,
        task: int,
        classes: int,
        seed: int,
        capacity: int | None = None,
        class_room: int | None = None,
        loss: Loss | None = None,
        external_names: tuple[str, ...] = (),
        most_cells: int = binning_tables.MOST_CELLS,
    ) -> None:
        self.task, self.classes, self.seed, self.loss = task, classes, seed, loss
        self.external_names, self.most_cells = external_names, most_cells
        self.outputs = classes if task == CLASSES else 1
        self.class_room = max(classes, class_room or 0) if task == CLASSES else classes
        self.output_room = self.class_room if task == CLASSES else 1
        """Outputs that there is room for."""
        self.capacity = max(1, len(keys), capacity or 0)
        self.keys = keys
        super().__init__()
        self.members = binning_tables.members(seed, keys)
        self.cells_of = binning_tables.cells_of(len(keys), self.outputs)
        """Cells of each table that is not folded."""
        self.sizes = sizes_of(
            task,
            classes,
            len(keys),
            self.capacity,
            self.output_room,
            external_names,
            loss,
            most_cells,
        )
        self.experts = self.sizes["EXPERTS"]
        self._begin()
        self._lay_out()

    # Arrays

    def _begin(self) -> None:
        """Make the arrays as they are before the first event."""
        wanted, sizes = pool_arrays.arrays_of(self.sizes), pool_arrays.with_room(self.sizes)
        self.arrays = {
            each.name.upper(): binning_tables.aligned(*each.lengths(sizes))
            if each.name == "binning_cells"
            else each.zeros(sizes)
            for each in wanted
        }
        self._begin_experts()
        self._begin_mixing()
        self._project(0)

    def _begin_experts(self) -> None:
        a, classes = self.arrays, self.sizes["CLASSES"]
        a["INVERSE"][:] = a["DISTANCE"][:] = 1.0
        a["LINEAR_KINDS"][:], a["GAUSSIAN_KINDS"][:] = (
            [kind for kind, _ in bank.rules] for bank in (LINEAR, GAUSSIAN)
        )
        a["LINEAR_RATES"][:] = self._paced(LINEAR, len(self.keys) + 1)
        a["GAUSSIAN_RATES"][:] = self._paced(GAUSSIAN, GAUSSIAN_FEATURES)
        paced = [(self._pace * rate, pace) for rate, pace in BINNING.rules]
        binning_tables.begin(a, self.cells_of, self.most_cells, paced)
        a.update(
            binning_tables.addressing_arrays(
                self.members, self.cells_of, self.most_cells, len(self.keys)
            )
        )
        a["NEWTON_P"][...] = np.eye(self.sizes["NEWTON_FEATURES"])
        a["CONSTANT_LEVELS"][...] = 1.0 / classes if classes > 1 else 0.0

    def _begin_mixing(self) -> None:
        a, starts = self.arrays, np.array([0.0, *NEWTON_STARTS])
        first: dict[str, Any] = {
            "ACTIVE": True,
            "BANK_OF_EXPERT": self._bank_numbers,
            "BANK_STARTS": np.cumsum([0, *(bank.experts(self.sizes) for bank in BANKS)]),
            "ACTIVE_MASK": 1.0,
            "ONES": 1.0,
            "ALPHAS": ALPHAS,
            "INVERSE_TEMPERATURES": 1.0,
            "PRODUCT_RATES": [GRADIENT_RATE, *(0.0 for _ in NEWTON_STARTS)],
            "PRODUCT_STARTS": starts,
            "FORGETS": [1.0, *NEWTON_FORGETS],
            "LOSS_PARAMETER": 0.0 if self.loss is None else self.loss.parameter,
        }
        if "TRACKED" in a:
            first |= {"TRACKED": np.array([[0.0], [1.0]]), "PINBALL": self._pinball}
        for name, values in first.items():
            a[name][...] = values
        for mixture in self._mixtures:
            for name in ("SHARES", "PRODUCTS", "LAST_PRODUCT", "MIXER_WEIGHTS"):
                a[mixture + name][...] = 1.0 / a[mixture + name].shape[-1]
            self._begin_inverses(mixture)

    @property
    def top_names(self) -> tuple[str, ...]:
        """The places of a mixture's arrays of its mixers, which do not tell experts apart."""
        of_classes = () if self.task == NUMBERS else ("RELIABILITY",)
        return ("LAST_PRODUCT", "LAST_INVERSE", "MIXER_WEIGHTS", *of_classes)

    @property
    def _mixtures(self) -> tuple[str, ...]:
        """Beginnings of the names of a mixture's arrays: of all experts, and of the pool's own."""
        return ("", "OWN_") if self.external_names else ("",)

    def _begin_inverses(self, mixture: str) -> None:
        """Have the products of a mixture take long steps, as at the beginning."""
        inverses, last = self.arrays[f"{mixture}INVERSES"], self.arrays[f"{mixture}LAST_INVERSE"]
        for P, start in zip(inverses[1:], NEWTON_STARTS, strict=True):
            P[...] = np.eye(len(P)) * start
        last[...] = np.eye(len(last)) * loops.mixture.LAST_START

    def _paced(self, bank: banks.Bank, features: int) -> NDArray[np.float64]:
        """Return the rates of a bank's step rules on so many features."""
        return self._pace * np.array(
            [rate / math.sqrt(features) if kind == ADAGRAD else rate for kind, rate in bank.rules]
        )

    @property
    def _pace(self) -> float:
        """Factor of rates: one logit has to go where two outputs would go apart."""
        return 2.0 if self.task == BINARY else 1.0

    def _project(self, first: int) -> None:
        """Draw the frequencies of the columns from the first one on."""
        d, chunks = len(self.keys) - first, GAUSSIAN_FEATURES // CHUNK
        W = np.empty((chunks, d, CHUNK), np.float32)
        b = np.empty((chunks, CHUNK), np.float32)
        backends.select().frequencies(self.seed, Law.NORMAL, 1, 1.0, self.keys[first:], 0, W, b)
        self.arrays["GAUSSIAN_PROJECTION"][first : first + d] = W.transpose(1, 0, 2).reshape(
            d, GAUSSIAN_FEATURES
        )
        self.arrays["GAUSSIAN_OFFSETS"][:] = b.reshape(GAUSSIAN_FEATURES)

    def _assign_columns(self, found: binning_tables.Membership) -> None:
        """Give the tables their columns."""
        self.members = found
        arrays = binning_tables.addressing_arrays(
            found, self.cells_of, self.most_cells, len(self.keys)
        )
        self.arrays.update(arrays)
        self.allocated.update(arrays)
        self.sizes["BINNING_MEMBERS"] = len(found.columns)

    @property
    def _pinball(self) -> list[bool]:
        """True for experts that descend the pinball loss: by the first step rule of each kind."""
        return [
            place % len(bank.rules) == 0 if bank.rules else False
            for bank in BANKS
            for place in range(bank.experts(self.sizes))
        ] + [False] * len(self.external_names)

    @property
    def banks(self) -> tuple[str, ...]:
        """The bank of each expert."""
        own = (BANKS[place].name for place in banks.banks_of(self.sizes))
        return (*own, *self.external_names)

    @property
    def learned_names(self) -> tuple[str, ...]:
        """The places of arrays that learning changes; the others follow from options and scale."""
        return tuple(each.name.upper() for each in pool_arrays.learned_of(self.sizes))

    @property
    def _bank_numbers(self) -> list[int]:
        """The number of each expert's bank; external experts have one each, after all others."""
        external = range(len(self.external_names))
        return banks.banks_of(self.sizes) + [len(BANKS) + place for place in external]

    def external_gains(self, least: Sequence[float], active: Sequence[bool]) -> NDArray[np.float64]:
        """Return by how much external experts were worth their time since this was asked last.

        Parameters
        ----------
        least : sequence of float
            For each of them the part of the loss that it has to spare the others.
        active : sequence of bool
            False for each that rests.

        Returns
        -------
        float64 array of shape (external experts,)
            By how much the loss would have been more without any, less that part of it, and not
            above 0 if there would have been fewer errors. What the labels' noise has cost, up to
            half of the loss, does not count for that part. Of several that were active each was
            worth no more than the sum of what a product's loss would have been more without it,
            less its part. Where by that none was worth its time, each may make the others
            dispensable, so that for the one with the largest sum it is left out. Sums are 0 from
            now on.
        """
        sums = self.arrays["BANK_COSTS"][FLAGGED_BANKS + 3 :]
        evidence = self.arrays["EVIDENCE"][3:]
        spared, fewer, apart, lost, by_all, events = evidence.tolist()
        beyond = max(0.5, 1.0 - events * self._noise / lost) if lost > 0.0 else 1.0
        parts = beyond * np.array(least)
        # As the others, which are of fewer events.
        joint = (spared - parts * lost) / loops.mixture.COST_EVERY
        if fewer < -math.sqrt(apart):  # the rule of the loops' `choose_mixture`
            joint = -np.abs(joint)
        found, on = joint, np.flatnonzero(active)
        # Of one alone the sum tells less: it is of one mixer, and weights that are new mislead it.
        if len(on) > 1:
            found = np.minimum(sums - parts * by_all, joint)
            if found[on].max() <= 0.0:
                best = on[np.argmax(sums[on])]
                found[best] = joint[best]
        sums[:] = evidence[:] = 0.0
        return np.asarray(found)

    @property
    def _noise(self) -> float:
        """Loss of an event that no expert can spare: that of the surest probability there was.

        Where one label in ten is wrong, however far from the border, it is 0.325.
        """
        if self.task == NUMBERS:
            return 0.0
        seen, true = self.arrays["OWN_RELIABILITY"]
        shares = true[seen >= _FEWEST] / seen[seen >= _FEWEST]
        if self.task == BINARY:
            shares = np.append(shares, 1.0 - shares)
        surest = shares.max(initial=0.5)
        if not 0.5 < surest < 1.0:
            return 0.0
        return float(-surest * math.log(surest) - (1.0 - surest) * math.log(1.0 - surest))

    def adapt(self, scale: RunningQuantiles) -> None:
        """Take over what a scale has found."""
        d, a = len(scale), self.arrays
        for name in ("center", "inverse", "knots", "indicator"):
            a[name.upper()][:d] = getattr(scale, name)
        a["DISTANCE"][0] = distance = max(scale.distance, _CLOSEST)
        a["GAUSSIAN_SCALES"][:] = np.array(GAUSSIAN_SHARPNESS) * math.sqrt(2.0) / distance

    @property
    def disagreement_weights(self) -> NDArray[np.float64]:
        """Weights of the pool's own experts, by which their disagreement is measured."""
        name = "OWN_SHARES" if self.external_names else "SHARES"
        weights: NDArray[np.float64] = self.arrays[name][0]
        return weights

    def set_external_outputs(self, outputs: NDArray[np.float32]) -> None:
        """Set the outputs (external experts, K), NaN of inactive ones, for the next forecast."""
        self.arrays["EXPERT_OUTPUTS"][self.experts - len(self.external_names) :] = outputs

    def empty_forecasts(self, events: int) -> NDArray[np.float32]:
        """Return room for forecasts of so many events, (events, FORECAST_ROWS, OUTPUTS)."""
        return np.empty((events, *self.arrays["FORECAST"].shape), np.float32)

    # Growing

    def add_columns(self, keys: NDArray[np.uint64]) -> bool:
        """Add columns; False, with nothing changed, if there is no room for them."""
        every = np.concatenate([self.keys, keys])
        if len(every) > self.capacity:
            return False
        if (binning_tables.cells_of(len(every), self.outputs) != self.cells_of).any():
            return False  # a pool made of all these columns, as from a state, has other cells
        found, changed = binning_tables.extended(self.members, self.seed, every, len(self.keys))
        known, self.keys = len(self.keys), every
        self._project(known)
        a = self.arrays
        a["LINEAR_RATES"][...] = self._paced(LINEAR, len(every) + 1)
        self._assign_columns(found)
        for table in changed:  # its cells mean something else now
            a["BINNING_CELLS"][slice(*a["BINNING_STARTS"][table : table + 2])] = 0.0
        self._point()
        return True

    def add_cells(self, most: int) -> None:
        """Give tables more cells, up to so many, if they do not have them."""
        if most > self.most_cells:
            found = binning_tables.unfolded(self.allocated, self.cells_of, self.most_cells, most)
            self.most_cells = most
            self.sizes["BINNING_SLOTS"] = len(found["BINNING_CELLS"])
            self.replace(**found)

    def shift_labels(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        a, by, more = self.arrays, np.float32(factor), np.float32(shift)
        for each in (each for bank in BANKS for each in bank.learned if each.unit):
            array = a[each.name.upper()]
            array *= by
            if each.unit == "value":
                array += more
            elif each.unit == "affine":
                array[..., -1:] += more
        if "TRACKED" in a:
            a["TRACKED"] *= factor
        # An error, how many there were, squares, products; with a factor of 0 none is known.
        a["LATE_ERRORS"][:-1] *= (factor, float(factor != 0.0), factor * factor, factor * factor)
        coefficients = binning_tables.coefficients(a, self.outputs)
        coefficients *= by
        wealth = (a["LINEAR_GAINS"] + np.float32(1.0)) * by
        a["LINEAR_GAINS"][...] = np.maximum(wealth - np.float32(1.0), 0.0)

    def restart(self) -> None:
        """Begin anew in part, where what was learned has stopped to hold.

        The experts of one step rule of each kind forget everything, the others take long steps
        again, and the mixing is free to move.
        """
        a = self.arrays
        for bank, axis in (("LINEAR", 0), ("GAUSSIAN", 1)):
            squares = a[f"{bank}_SQUARES"]
            squares *= np.float32(_RESTART)
            for array in (a[f"{bank}_A"], squares):
                np.moveaxis(array, axis, 0)[0] = 0.0
        binning_tables.restart(a, self.output_room, len(BINNING.rules) - 1, _RESTART)
        for mixture in self._mixtures:
            self._begin_inverses(mixture)
            a[f"{mixture}MIXER_WEIGHTS"][:] = 1.0 / self.sizes["MIXERS"]
            if self.task != NUMBERS:
                a[f"{mixture}RELIABILITY"] *= _RESTART
        a["ACTIVE"][:] = True

    def begin_full_mixing(self) -> None:
        """Have the mixture of all experts begin with what that of the pool's own ones knows.

        External experts, which have rested, have the weights of new ones, and nothing is known of
        what they are worth.
        """
        a, own, e = self.arrays, self.sizes["OWN_EXPERTS"], self.experts
        for name in self.top_names:
            a[name][...] = a[f"OWN_{name}"]
        a["SHARES"][:, :own] = a["OWN_SHARES"] * (own / e)
        a["SHARES"][:, own:] = 1.0 / e
        a["PRODUCTS"][:, :own], a["PRODUCTS"][:, own:] = a["OWN_PRODUCTS"], 0.0
        a["INVERSES"][...] = 0.0
        a["INVERSES"][:, own:, own:] = np.eye(e - own) * a["PRODUCT_STARTS"][:, None, None]
        a["INVERSES"][:, :own, :own] = a["OWN_INVERSES"]
        a["INVERSE_TEMPERATURES"][own:], a["CURVATURES"][own:] = 1.0, 0.0
        a["EVIDENCE"][...] = 0.0

    def join(self, other: ExpertPool, share: float, began: ExpertPool | None = None) -> None:
        """Take in a share of what another pool learned, whose arrays have the same shapes.

        Of cells the share is what the other learned of them since both were `began`, if that is
        given.
        """
        others = {"WINDOW_Z", "WINDOW_Y", "ACTIVE"}
        if began is not None:
            A, B, before = (pool.arrays["BINNING_CELLS"] for pool in (self, other, began))
            loops.binning.join(A, B, before, self.output_room, np.float32(share))
            others.add("BINNING_CELLS")
        for name in self.learned_names:
            if name not in others:
                mine = self.arrays[name]
                mine += mine.dtype.type(share) * (other.arrays[name] - mine)
        active, window = self.arrays["ACTIVE"], BANKS.index(WINDOW)
        if other.arrays["ACTIVE"][window] and not active[window]:
            self.set_window(0, 0)  # which is from before it became inactive
        active |= other.arrays["ACTIVE"]
        # The mean costs of an event stay, but loops count whole events. What external experts were
        # worth is of other events, those since `external_gains`.
        costs = self.arrays["BANK_COSTS"][: FLAGGED_BANKS + 3]
        place = loops.mixture.EVENTS
        costs *= round(costs[place]) / costs[place] if costs[place] else 0.0
        costs[place] = round(costs[place])

    def contributions(self) -> dict[str, float]:
        """Return the part of each bank in the last forecast, summing to 1."""
        a, kinds = self.arrays, np.array(self.banks)
        on = a["ACTIVE_MASK"]
        F = np.where(on[:, None] > 0.0, a["EXPERT_OUTPUTS"].astype(np.float64), 0.0)
        sizes = np.abs(F - F.mean(axis=1, keepdims=True) * (F.shape[1] > 1)).sum(axis=1)
        mixture, mixed = "", self.experts
        if self.external_names and not np.array_equal(a["OUT"], a["FULL_OUT"]):
            mixture, mixed = "OWN_", self.sizes["OWN_EXPERTS"]
        of = {name: a[mixture + name] for name in ("SHARES", "PRODUCTS", "LAST_PRODUCT")}
        terms = np.abs(of["PRODUCTS"]) * sizes[:mixed]
        parts = np.vstack([of["SHARES"], terms]) * on[:mixed]
        sums = parts.sum(axis=1, keepdims=True)
        parts /= np.where(sums > 0, sums, 1.0)
        last, top = np.abs(of["LAST_PRODUCT"]), a[f"{mixture}MIXER_WEIGHTS"][: len(parts) + 1]
        top = top / top.sum()  # what corrects these mixers is of them all
        parts = (top[:-1] + top[-1] * last / (last.sum() or 1.0)) @ parts
        parts = np.pad(parts, (0, self.experts - mixed))
        return {bank: float(parts[kinds == bank].sum()) for bank in dict.fromkeys(self.banks)}

    # State

    def learned(self, *, lent: bool = False) -> dict[str, NDArray[Any]]:
        """Return copies of what was learned; if `lent`, the cells are the pool's own."""
        found = {name.lower(): self.used(name) for name in self.learned_names}
        for name, array in found.items():
            own = array.base is not None or array is self.arrays[name.upper()]
            if own and not (lent and name == "binning_cells"):
                found[name] = array.copy()
        return found

    def used(self, name: str) -> NDArray[Any]:
        """Return an array without the outputs that there is only room for; a copy of the cells."""
        array, axis = self.arrays[name], SPACED.get(name)
        if name == "BINNING_CELLS" and self.output_room > self.outputs:
            return binning_tables.without_room(self.arrays, self.outputs, self.output_room)
        if axis is None:
            return array
        return array[(slice(None),) * axis + (slice(self.outputs),)]

    def restore(self, arrays: Mapping[str, NDArray[Any]], count: int, following: int) -> None:
        """Take back what `learned` gave, checked by `streamk.learners.multi_kernel.pool_growth`."""
        for name in self.learned_names:
            self.arrays[name][...] = arrays[name.lower()]
        self.set_window(count, following)
