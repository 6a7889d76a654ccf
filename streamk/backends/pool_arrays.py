"""The arrays of a pool of experts: those of all banks, and of the mixing, each said once.

The learners make a pool's arrays by this list, and check those of a state by it; the places in the
table of the compiled loops follow from it. Nothing here needs numba.

Sizes of a bank begin with its name: its experts side by side (RULES), random features and
bandwidths, tables of random binning in groups, with the columns of all tables (MEMBERS) and their
cells (SLOTS), the events of the window, and the features of the bank newton (0 without it). Of the
others, COLUMNS is d, the columns that there is room for, OUTPUTS (1 for two classes and for
numbers), CLASSES (1 for numbers), N_KNOTS of a column's ranks, MIXERS_POOLED fixed shares
(MIXERS_SHARE) and products of experts (MIXERS_PRODUCT), MIXERS these, the product of them and, of
classes, the one that corrects them all (`experts.reliability`), CHAIN the labels of
which it is known what follows (0 for numbers), EXTERNAL the experts whose outputs come from
elsewhere: the last ones, and OWN_EXPERTS all others. Outputs that there is room for,
those that are not used being zero, are OUTPUT_ROOM. `derived` has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamk.backends import NUMBERS, filled
from streamk.backends.banks import BANKS, CHAIN, CHAIN_LABELS, RULES, WIDE
from streamk.declared import FLAGS, Declared, Domain

FLAGGED_BANKS = len(BANKS) - 1
"""Banks with a flag of whether they are active, which the first one always is; the constant one,
the last, has none."""

COUNTERS = ("COUNT", "NEXT", "MIXED_IS_CURRENT", "LAG", "KNOWN")
"""Numbers that change: of events in the window; of the window's row that the next event takes;
whether PROBABILITIES and MIXED are of SCORES and of the weights as they are now; events that were
learned between the prediction of the next one and its learning; the class known last at that
prediction, -1 of none."""
DEFAULT, SQUARED, HUBER, QUANTILE = range(4)
"""Kinds of losses. By default experts learn Huber's loss and are mixed by their absolute errors."""
STAGES = ("EVALUATE_FEATURES", "PREDICT_EXPERTS", "MIX", "LEARN_WEIGHTS", "LEARN_EXPERTS")
"""The stages of an event, of which the compiled loops have the addresses."""

_WEIGHTS = Domain(1e-12, 1.001, sum_to_one=True)
"""Of fixed shares, which give a part to each expert: if only inactive experts had weight, the mean
of the others would be a division of 0 by 0."""
_PRODUCT = Domain(-1e6, 1e6)
_INVERSE = Domain(-1e3, 1e3)
"""They do not grow past where they begin, which is at most 0.1."""
_SHARE_OF_LABELS = Domain(-1e-3, 1.001)

RELIABILITY_KNOTS = 57
"""Of a mixture's probabilities, see `experts.reliability`."""
RELIABILITY = Declared("reliability", "float64", (2, RELIABILITY_KNOTS), Domain(0.0, 1e12))
"""Of classes alone: how many probabilities there were about each knot, and how many came true."""
OWN_RELIABILITY = replace(RELIABILITY, name="own_reliability")

_BY_EXPERT = ("EXPERTS", "OUTPUTS")

LEARNED: tuple[Declared, ...] = (
    *(each for bank in BANKS for each in bank.learned),
    Declared("shares", "float64", ("MIXERS_SHARE", "EXPERTS"), _WEIGHTS),
    # Factors on scores, and discounted sums of the second derivatives of losses in them.
    Declared("inverse_temperatures", "float64", ("EXPERTS",), Domain(0.0, 8.0)),
    Declared("curvatures", "float64", ("EXPERTS",), Domain(-1.0, 1e12)),
    Declared("products", "float64", ("MIXERS_PRODUCT", "EXPERTS"), _PRODUCT),
    Declared("inverses", "float64", ("MIXERS_PRODUCT", "EXPERTS", "EXPERTS"), _INVERSE),
    Declared("last_product", "float64", ("MIXERS_POOLED",), _PRODUCT),
    Declared("last_inverse", "float64", ("MIXERS_POOLED", "MIXERS_POOLED"), _INVERSE),
    Declared("mixer_weights", "float64", ("MIXERS",), _WEIGHTS),
    RELIABILITY,
    # Errors of labels that come late, see `experts.two_stage.late_weight`.
    Declared("late_errors", "float64", (5,), WIDE),
    Declared("active", "bool", (FLAGGED_BANKS,), FLAGS),
    # What the lack of each bank would have cost, what was lost, and of how many events; then by how
    # much more that of each external expert would have cost than it has to.
    Declared("bank_costs", "float64", (("EXTERNAL", FLAGGED_BANKS + 3),), Domain(-1e9, 1e9)),
)
"""Arrays that learning changes and a state holds, but for `TRACKED`."""

TRACKED = Declared("tracked", "float64", (2, ("EXPERTS", 1)), WIDE)
"""Of quantiles alone: offsets and mean errors, see `experts.expert_predictions`."""
PINBALL = Declared("pinball", "bool", ("EXPERTS",), FLAGS)
"""Of quantiles alone: which experts descend the pinball loss."""

OWN_MIXING = (
    Declared("own_shares", "float64", ("MIXERS_SHARE", "OWN_EXPERTS"), _WEIGHTS),
    Declared("own_products", "float64", ("MIXERS_PRODUCT", "OWN_EXPERTS"), _PRODUCT),
    Declared("own_inverses", "float64", ("MIXERS_PRODUCT", "OWN_EXPERTS", "OWN_EXPERTS"), _INVERSE),
    Declared("own_last_product", "float64", ("MIXERS_POOLED",), _PRODUCT),
    Declared("own_last_inverse", "float64", ("MIXERS_POOLED", "MIXERS_POOLED"), _INVERSE),
    Declared("own_mixer_weights", "float64", ("MIXERS",), _WEIGHTS),
    OWN_RELIABILITY,
    # By how much the mixture of all experts is better, see `experts.mixture.compare_mixtures`.
    Declared("evidence", "float64", (9,), Domain(-1e9, 1e9)),
)
"""Arrays of pools with external experts: the mixture of the others, which a state holds, too."""

FOLLOWING = (
    Declared("center", "float64", ("COLUMNS",)),
    Declared("inverse", "float64", ("COLUMNS",)),
    Declared("knots", "float64", ("COLUMNS", "N_KNOTS")),
    Declared("indicator", "bool", ("COLUMNS",)),
    Declared("distance", "float64", (1,)),  # the median one of scaled events
    *(each for bank in BANKS for each in bank.following),
    Declared("bank_of_expert", "int64", ("EXPERTS",)),
    Declared("bank_starts", "int64", (len(BANKS) + 1,)),  # the first expert of each bank
    Declared("alphas", "float64", ("MIXERS_SHARE",)),
    Declared("product_rates", "float64", ("MIXERS_PRODUCT",)),
    # The largest inverses; 0 where steps are along the gradient.
    Declared("product_starts", "float64", ("MIXERS_PRODUCT",)),
    Declared("forgets", "float64", ("MIXERS_PRODUCT",)),
    Declared("loss_parameter", "float64", (1,)),
)
"""Arrays that follow from the columns, the seed, the scale and the options."""

FORECASTING = (
    Declared("z", "float32", (("COLUMNS", 1),)),  # the last one is 1
    Declared("r", "float32", ("COLUMNS",)),
    *(each for bank in BANKS for each in bank.forecasting),
    Declared("expert_outputs", "float32", _BY_EXPERT),
    # Predictions without bounds, until the label is known; then slopes of the losses in outputs.
    Declared("expert_slopes", "float32", _BY_EXPERT),
    # Scores of the event in the pool's workspace, of no use where ACTIVE_MASK is 0.
    Declared("scores", "float32", _BY_EXPERT),
    # SCORES, with NaN where an expert is inactive; then of each mixture MIXED and its prediction;
    # OUT, if there are two mixtures; of classes the one known last, -1 of none.
    Declared("forecast", "float32", ("FORECAST_ROWS", "OUTPUTS")),
    Declared("active_mask", "float64", ("EXPERTS",)),  # 0 where an expert is inactive, else 1
    Declared("ones", "float64", ("MIXERS",)),  # all 1
    Declared("mixed", "float64", ("MIXERS", "OUTPUTS")),
    # Probabilities or numbers: of scores, and of scores times factors.
    Declared("probabilities", "float64", _BY_EXPERT),
    Declared("calibrated", "float64", _BY_EXPERT),
    # Scores of the mixers that a product pools.
    Declared("mixer_scores", "float32", ("MIXERS_POOLED", "OUTPUTS")),
    Declared("output_workspace", "float64", ("OUTPUTS",)),
    Declared("expert_workspace", "float64", ("EXPERTS",)),
    Declared("out", "float64", ("OUTPUTS",)),
)
"""Arrays that forecasting writes."""

OWN_FORECASTING = (
    Declared("own_mixed", "float64", ("MIXERS", "OUTPUTS")),
    Declared("own_mixer_scores", "float32", ("MIXERS_POOLED", "OUTPUTS")),
    Declared("own_out", "float64", ("OUTPUTS",)),
    Declared("full_out", "float64", ("OUTPUTS",)),  # of all experts; OUT is the better one
)
"""Arrays of pools with external experts: what forecasting writes of the others' mixture."""

LEARNING = (
    *(each for bank in BANKS for each in bank.learning),
    Declared("product_gradient", "float64", ("EXPERTS",)),  # of a loss in the weights
    Declared("likelihoods", "float64", ("EXPERTS",)),  # exp(-loss / 4) of the experts
    Declared("mixer_likelihoods", "float64", ("MIXERS",)),  # exp(-loss / 4) of the mixers
)
"""Arrays that learning writes."""

_OF_QUANTILES = (TRACKED, PINBALL)
_OF_EXTERNAL = (*OWN_MIXING, *OWN_FORECASTING)
ARRAYS = (
    *(*LEARNED, *_OF_QUANTILES, *OWN_MIXING, *FOLLOWING),
    *(*FORECASTING, *OWN_FORECASTING, *LEARNING),
)

_LENGTHS = [size for each in ARRAYS for size in each.shape if not isinstance(size, int)]
_NAMES = (size if isinstance(size, str) else size[0] for size in _LENGTHS)
SIZES = tuple(dict.fromkeys(("TASK", "LOSS", "BINNING_RULES", *_NAMES)))
"""Numbers that stay what they are while events are learned: those of arrays' shapes; TASK, one of
those in `streamk.backends`; and LOSS, the kind of loss by which numbers are learned and mixed."""


def line(outputs: int) -> int:
    """Return how many numbers a cell takes that has so many outputs.

    Examples
    --------
    >>> line(1), line(3), line(4)
    (8, 16, 32)
    """
    return 2 * RULES if outputs == 1 else filled(RULES * (outputs + 1))


def derived(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes with those that follow from the others.

    These are the numbers that a cell takes (BINNING_LINE), and one without room for more outputs
    (BINNING_USED_LINE); the classes that smoothers have sums of (WINDOW_CLASSES), two for numbers;
    experts of the pool itself (OWN_EXPERTS); and the rows of a forecast (FORECAST_ROWS): of the
    experts, the mixers and their mixture. With external experts these are the mixers of all and
    their mixture, those of the others and theirs, and the one of the two that is predicted. Of
    classes the last row has the one known last.
    """
    mixture, external = sizes["MIXERS"] + 1, sizes["EXTERNAL"]
    of_classes = sizes["TASK"] != NUMBERS
    return {
        **sizes,
        "BINNING_LINE": line(sizes["OUTPUT_ROOM"]),
        "BINNING_USED_LINE": line(sizes["OUTPUTS"]),
        "WINDOW_CLASSES": max(2, sizes["CLASSES"]),
        "CHAIN": min(sizes["CLASSES"], CHAIN_LABELS) if of_classes else 0,
        "FORECAST_ROWS": sizes["EXPERTS"] + (2 * mixture + 1 if external else mixture) + of_classes,
        "OWN_EXPERTS": sizes["EXPERTS"] - external,
    }


def with_room(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of arrays with room for outputs that are still to come."""
    room = sizes["OUTPUT_ROOM"]
    return derived({**sizes, "OUTPUTS": room, "CLASSES": max(sizes["CLASSES"], room)})


def arrays_of(sizes: Mapping[str, int]) -> tuple[Declared, ...]:
    """Return the arrays of a pool of such sizes."""
    return tuple(each for each in ARRAYS if each not in _left_out(sizes))


def learned_of(sizes: Mapping[str, int]) -> tuple[Declared, ...]:
    """Return those that learning changes and a state holds."""
    found = (*LEARNED, TRACKED, *OWN_MIXING)
    return tuple(each for each in found if each not in _left_out(sizes))


def _left_out(sizes: Mapping[str, int]) -> tuple[Declared, ...]:
    """Return arrays that there are none of."""
    return (
        *((RELIABILITY, OWN_RELIABILITY, CHAIN) if sizes["TASK"] == NUMBERS else ()),
        *(() if sizes["LOSS"] == QUANTILE else _OF_QUANTILES),
        *(() if sizes["EXTERNAL"] else _OF_EXTERNAL),
    )


def stored(sizes: Mapping[str, int]) -> tuple[Declared, ...]:
    """Return what a state holds, with the domains of the task's labels."""
    found = learned_of(sizes)
    if sizes["TASK"] == NUMBERS:
        return found
    labels = {
        "window_y": Domain(0, sizes["CLASSES"] - 1, whole=True),
        "constant_levels": _SHARE_OF_LABELS,
    }
    return tuple(replace(each, domain=labels.get(each.name, each.domain)) for each in found)
