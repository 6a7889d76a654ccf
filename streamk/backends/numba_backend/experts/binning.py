"""Random binning: tables whose cells are bins of a few columns.

Two events share a cell of a table of random offsets with a probability that falls with their
distance, a Laplacian-like kernel of the table's columns (Rahimi and Recht 2007, section 4), and a
table of some columns is a kernel on these alone. So the sum over tables is a sum of kernels, and
the weight of each table, learned by exponentiated gradient, is that kernel's.

A cell is one run of numbers, in a cache line or a few: for each output the coefficients of `RULES`
rules, then the rules' sums of squared slopes. What goes on within a table is gathered from the
cells, done for all tables at once, and put back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import LANES
from streamk.backends.banks import RULES
from streamk.backends.jit.compiling import called, fast
from streamk.backends.jit.lanes import (
    fma,
    gathered,
    halved,
    load,
    repeated,
    store,
    throughout,
    where,
    whole,
)
from streamk.backends.numba_backend.experts import slot, view
from streamk.backends.numba_backend.exponential import exponential

_PRIOR = 1.0
"""Added to the root of a cell's squared slopes: its first step is no longer than the rate."""
_FORGET = 0.999
_LEAST, _MOST = 0.02, 4.0
"""Bounds of a table's weight, so that it can come back."""


@fast
def features(table: Any) -> None:
    """Write the numbers of the cells that an event is in, by its ranks."""
    starts, groups = view.binning_member_starts(table), view.binning_group_starts(table)
    r, columns, shifts = view.r(table), view.binning_columns(table), view.binning_shifts(table)
    multipliers, bins = view.binning_multipliers(table), view.binning_bins(table)
    places, of_all = view.binning_places(table), view.binning_of_all(table)
    for i in range(len(of_all)):
        one, end, first, last = starts[i], starts[i + 1], groups[i], groups[i + 1]
        shape = ((end - one) // (last - first), last - first)
        s, m = shifts[one:end].reshape(shape), multipliers[one:end].reshape(shape)
        if of_all[i]:
            locate_all(r, s, m, bins[first:last], places[first:last])
        else:
            c = columns[one:end].reshape(shape)
            locate(r, c, s, m, bins[first:last], places[first:last])
    number_cells(places, view.binning_starts(table), view.binning_down(table))


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (groups times rules, outputs)."""
    k, groups = table[slot.OUTPUTS], view.binning_group_starts(table)
    places, cells = view.binning_places(table), view.binning_cells(table)
    weights, found = view.binning_weights(table), view.binning_gathered(table)
    out = view.binning_by_group(table)
    F = F.reshape((len(out), table[slot.BINNING_RULES], k))
    if k == 1:
        gather(places, cells, 0, found)
    for i in range(len(out)):
        first, last = groups[i], groups[i + 1]
        if k == 1:
            sum_one(weights[first:last], found[first:last], out[i])
        else:
            sum_all(places[first:last], weights[first:last], cells, out[i])
        for rule in range(F.shape[1]):
            for j in range(k):
                F[i, rule, j] = out[i, RULES * j + rule]


@fast
def descend(table: Any, G: Any) -> None:
    """Update the tables by the slopes (groups times rules, outputs) of their losses."""
    k, groups = table[slot.OUTPUTS], view.binning_group_starts(table)
    places, cells = view.binning_places(table), view.binning_cells(table)
    g, squares_at = view.binning_by_group(table), RULES * table[slot.OUTPUT_ROOM]
    found, along = view.binning_gathered(table), view.binning_slopes(table)
    rule_squares, squares = view.binning_rule_squares(table), view.binning_squares(table)
    steps = view.binning_steps(table)
    G = G.reshape((len(g), table[slot.BINNING_RULES], k))
    gather(places, cells, squares_at, squares)
    for i in range(len(g)):
        first, last = groups[i], groups[i + 1]
        lay(G[i], g[i])
        take_in(G[i], rule_squares, squares[first:last])
        if k == 1:
            slopes_one(found[first:last], g[i], along[first:last])
        else:
            slopes(places[first:last], cells, g[i], along[first:last])
    move(
        view.binning_rates(table).ravel(),
        view.binning_weight_rates(table).ravel(),
        along.ravel(),
        squares.ravel(),
        view.binning_weights(table).ravel(),
        view.binning_weight_squares(table).ravel(),
        steps.ravel(),
    )
    for i in range(len(g)):
        first, last = groups[i], groups[i + 1]
        if k == 1:
            step_one(places[first:last], steps[first:last], squares[first:last], g[i], cells)
        else:
            some = places[first:last]
            step_all(some, steps[first:last], squares[first:last], g[i], cells, squares_at)


@fast
def locate(r: Any, columns: Any, shifts: Any, multipliers: Any, bins: Any, sums: Any) -> None:
    """Write what the cells' numbers come from: for each table a sum of multipliers times bins.

    `r` are ranks in [0, 1), negative where missing. Of a group of tables with the same number of
    columns, `columns`, `shifts` and `multipliers` are (columns of a table, tables); tables are a
    multiple of 16.
    """
    zero, one, tables = r.dtype.type(0.0), r.dtype.type(1.0), len(sums)
    for first in range(0, tables, LANES):
        several, total = load(bins, first), whole(repeated(zero))
        for at in range(first, len(columns) * tables, tables):
            rank = gathered(r, load(columns, at))
            bin_ = fma(rank, several, load(shifts, at))
            total = total + load(multipliers, at) * whole(where(rank >= zero, bin_, several + one))
        store(total, sums, first)


@fast
def locate_all(r: Any, shifts: Any, multipliers: Any, bins: Any, sums: Any) -> None:
    """Do what `locate` does for tables of all columns, in their order: nothing is gathered."""
    number = r.dtype.type
    for t in range(len(sums)):
        sums[t] = 0
    for j in range(len(shifts)):
        v, s, m = r[j], shifts[j], multipliers[j]
        if v >= number(0.0):
            for t in range(len(sums)):
                sums[t] += m[t] * np.int32(v * bins[t] + s[t])
        else:
            for t in range(len(sums)):
                sums[t] += m[t] * np.int32(bins[t] + number(1.0))


@fast
def number_cells(sums: Any, starts: Any, down: Any) -> None:
    """Turn the sums of tables, of 32 bits, into the numbers of their cells.

    Where a table has a cell for each of its bins, the multipliers are the bins' strides; else they
    are random, and the leading bits of the sum are a universal hash (Dietzfelbinger 1996).
    """
    for t in range(len(sums)):
        sums[t] = starts[t] + ((sums[t] & 0xFFFFFFFF) >> down[t])


@fast
def gather(cells: Any, A: Any, place: Any, out: Any) -> None:
    """Copy the rules' numbers (tables, RULES) from the same place of all cells."""
    for t in range(len(cells)):
        store(load(A, cells[t] * A.shape[1] + place, RULES), out, t * RULES)


@fast
def sum_one(weights: Any, a: Any, out: Any) -> None:
    """Write the sums (RULES,) over a group's tables of weights times coefficients."""
    total = repeated(a.dtype.type(0.0))
    for i in range(0, a.size, LANES):
        total = fma(load(weights, i), load(a, i), total)
    store(halved(halved(total)), out, 0)


@fast
def sum_all(cells: Any, weights: Any, A: Any, out: Any) -> None:
    """Write the sums over a group's tables, laid out as a cell without room for more outputs is."""
    for i in range(0, len(out), LANES):
        p = repeated(A.dtype.type(0.0))
        q, r, s, whole_ = p, p, p, len(cells) - len(cells) % 4
        for t in range(0, whole_, 4):  # one sum would wait for its last addition
            p = _term(cells, weights, A, t, i, p)
            q = _term(cells, weights, A, t + 1, i, q)
            r = _term(cells, weights, A, t + 2, i, r)
            s = _term(cells, weights, A, t + 3, i, s)
        p = (p + q) + (r + s)
        for t in range(whole_, len(cells)):
            p = _term(cells, weights, A, t, i, p)
        store(p, out, i)


@fast
def _term(cells: Any, weights: Any, A: Any, t: Any, i: Any, total: Any) -> Any:
    """Return a total and what a table adds to it in the vector i of a cell."""
    factor = throughout(load(weights, t * RULES, RULES))
    return fma(load(A, cells[t] * A.shape[1] + i), factor, total)


@called
def restart(A: Any, outputs: int, rule: int, kept: Any) -> None:
    """Erase a rule's numbers in all cells, and restore the long steps of the others.

    `outputs` are those that the cells have room for. Of the others' squared slopes the part `kept`
    stays. Most cells have never been met, have no squared slopes and are not written to: their
    pages may not even be there.
    """
    first = RULES * outputs
    for i in range(len(A)):
        met = np.float32(0.0)
        for j in range(first, first + RULES):
            met += A[i, j]
        if met > 0.0:
            for k in range(outputs):
                A[i, RULES * k + rule] = 0.0
            for j in range(first, first + RULES):
                A[i, j] *= kept
            A[i, first + rule] = 0.0


@called
def join(A: Any, B: Any, began: Any, outputs: int, share: Any) -> None:
    """Have cells become the means of theirs and of others', by what each learned since `began`.

    That is the growth of the sums of squared slopes, which add up. Where such a sum has become
    less, since experts began anew, all is the mean by the others' `share`.
    """
    first = RULES * outputs
    for i in range(len(A)):
        for rule in range(RULES):
            j = first + rule
            mine, theirs = A[i, j] - began[i, j], B[i, j] - began[i, j]
            part, both = share, mine + theirs
            if mine >= 0.0 and theirs >= 0.0:
                if both > 0.0:
                    part = theirs / both
                A[i, j] = began[i, j] + both
            else:
                A[i, j] += share * (B[i, j] - A[i, j])
            for k in range(outputs):
                place = RULES * k + rule
                A[i, place] += part * (B[i, place] - A[i, place])


@fast
def lay(G: Any, side: Any) -> None:
    """Lay slopes (rules, outputs) out as a cell is, with zeros elsewhere."""
    for i in range(len(side)):
        side[i] = 0.0
    for rule in range(G.shape[0]):
        for k in range(G.shape[1]):
            side[RULES * k + rule] = G[rule, k]


@fast
def take_in(G: Any, room: Any, squares: Any) -> None:
    """Add the squares of slopes (rules, outputs) to those of the cells (tables, RULES).

    `room` has RULES numbers, 0 for rules that are not there.
    """
    for rule in range(G.shape[0]):
        total = G[rule, 0] * G[rule, 0]
        for k in range(1, G.shape[1]):
            total += G[rule, k] * G[rule, k]
        room[rule] = total
    more = throughout(load(room, 0, RULES))
    for i in range(0, squares.size, LANES):
        store(load(squares, i) + more, squares, i)


@fast
def slopes_one(a: Any, g: Any, out: Any) -> None:
    """Write the slopes (tables, RULES) in the weights, of one output with slopes g."""
    factor = throughout(load(g, 0, RULES))
    for i in range(0, a.size, LANES):
        store(load(a, i) * factor, out, i)


@fast
def slopes(cells: Any, A: Any, g: Any, out: Any) -> None:
    """Write the slopes (tables, RULES) of the loss in the weights, from slopes g in the outputs.

    They are what the loss loses along the tables' coefficients. `g` is laid out as a cell without
    room for more outputs is, with zeros from the squares on.
    """
    for t in range(len(cells)):
        total = repeated(A.dtype.type(0.0))
        for i in range(0, len(g), LANES):
            total = fma(load(A, cells[t] * A.shape[1] + i), load(g, i), total)
        store(halved(halved(total)), out, t * RULES)


@fast
def move(
    rates: Any,
    weight_rates: Any,
    slopes: Any,
    squares: Any,
    weights: Any,
    weight_squares: Any,
    steps: Any,
) -> None:
    """Write the cells' AdaGrad steps; move the tables' weights by exponentiated gradient.

    All are one number for each table and rule. `rates` are of the cells, `weight_rates` of the
    weights, whose slopes are taken in units of their recent size, the root of `weight_squares`.
    """
    number = rates.dtype.type
    for i in range(len(rates)):
        w = weights[i]
        steps[i] = rates[i] * w / (math.sqrt(squares[i]) + number(_PRIOR))
        # The last term keeps the squares of slopes that are gone from becoming subnormal, and slow.
        s = number(_FORGET) * weight_squares[i] + slopes[i] * slopes[i] + number(1e-20)
        weight_squares[i] = s
        w *= exponential(-weight_rates[i] * slopes[i] / math.sqrt(s + number(1e-12)))
        weights[i] = min(max(w, number(_LEAST)), number(_MOST))


@fast
def step_one(cells: Any, steps: Any, squares: Any, g: Any, A: Any) -> None:
    """Step along the slopes g (RULES,) of the only output; put the squares back."""
    down = -load(g, 0, RULES)
    for t in range(len(cells)):
        here = cells[t] * A.shape[1]
        store(fma(load(steps, t * RULES, RULES), down, load(A, here, RULES)), A, here)
        store(load(squares, t * RULES, RULES), A, here + RULES)


@fast
def step_all(cells: Any, steps: Any, squares: Any, g: Any, A: Any, last: Any) -> None:
    """Step along the slopes g, laid out as in `slopes`; put the squares back at `last`."""
    for t in range(len(cells)):
        here, step = cells[t] * A.shape[1], -throughout(load(steps, t * RULES, RULES))
        for i in range(0, len(g), LANES):
            store(fma(step, load(g, i), load(A, here + i)), A, here + i)
        store(load(squares, t * RULES, RULES), A, here + last)
