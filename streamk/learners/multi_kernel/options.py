"""Options of the learner of many kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamk.backends.pool_arrays import HUBER, QUANTILE, SQUARED
from streamk.errors import InvalidInput
from streamk.learners.common.options import MAX_CLASSES, SEED, THREADS
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name
from streamk.options import Flag, Made, Option, Real, Whole

LOSS_KINDS = {"squared": SQUARED, "huber": HUBER, "quantile": QUANTILE}
"""Kinds of losses in the compiled loops."""
_DELTAS = (0.1, 20.0)
"""Less would leave experts standing, and labels end there."""
_LEVELS = (0.005, 0.995)


def number_loss(loss: str | Loss | None) -> Loss | None:
    """Return a loss for numbers, by its name or as it is; None is the default.

    Raises
    ------
    InvalidInput
        If experts do not learn by it, or its parameter is out of range.

    Examples
    --------
    >>> number_loss("quantile")
    Loss(code=<LossCode.QUANTILE: 7>, parameter=0.5)
    """
    found = loss_by_name(loss) if isinstance(loss, str) and loss in LOSS_KINDS else loss
    if found is None:
        return None
    if not isinstance(found, Loss) or found.name not in LOSS_KINDS:
        raise InvalidInput(
            f"loss={loss!r} is not a loss by which many kernels learn numbers: choose "
            f"{', '.join(LOSS_KINDS)}, or leave it out"
        )
    for name, least, most in (("huber", *_DELTAS), ("quantile", *_LEVELS)):
        if found.name == name and not least <= found.parameter <= most:
            what = "delta, in units of the labels' spread," if name == "huber" else "q"
            raise InvalidInput(
                f"{what} is {found.parameter:g} and must lie between {least:g} and {most:g}"
            )
    return found


def loss_from_json(saved: Mapping[str, Any] | None) -> Loss | None:
    """Return the loss that `streamk.losses.Loss.to_json` gave; None is the default."""
    return None if saved is None else number_loss(loss_by_name(**saved))


_LOSS = """Of numbers. Errors e are in units of the labels' spread, a standard deviation if they
are normal. By default experts learn Huber's loss with delta 3 and the mixing loses 2 abs(e), which
is for the mean absolute error.

- "squared", for the root of the mean squared error: experts' steps are as long as errors,
  up to 20, and the mixing loses e^2 / 4. Its weights move by exp(-e^2 / 16), which is
  concave up to the root of 8.
- "huber", with ``delta`` from 0.1 to 20, 1 by default: no step is for more than delta, so a
  small one learns slowly; the mixing loses 2 / delta, and at least 1/2, times Huber's loss.
- "quantile", with ``q`` from 0.005 to 0.995, the median by default: predictions are the
  quantile. The mixing and the first step rule of each kind of experts descend the pinball
  loss, in units of recent errors; the others learn the mean. A tracker of the quantile of
  its errors is added to what each expert says. The mixing loses 4 times the pinball loss.

One with a parameter is ``streamk.losses.loss("quantile", q=0.9)``, say."""
_CLASS_WEIGHT = """What it costs to miss each class: positive weights by label, 1 for those left
out. What is predicted is then the class with the largest product of weight and probability, so
that the expected weighted error is the least (Elkan 2001); learning and probabilities stay as they
are. "balanced" takes one over the share of the class among the last labels (10,000, and
exponentially fewer of those before), at least 0.005, so that all classes count alike. The weight
of a label that never comes changes nothing: on a stream it may still come. Where `classes` are
given, or the first label is a boolean, it must be one of the classes."""
_EXTERNAL_EXPERTS = """Learners that join the experts: their predictions are mixed like those of
the others. By default that is a `FeatureMachine` of this task and seed, which switches off where
columns and classes, together, are more than 256; an empty sequence is for none, which is several
times as fast. They must be new; copies learn. They see the columns in units of their spread, with
the median where a value is missing, and the median distance of two events is the root of 2.
Numbers are in the labels' spread. They go on as they are where the losses rise. One whose
predictions overflow begins anew. Beside the mixture of all experts there is then that without
external ones, as it would be if there were none, and it is predicted by the one whose loss over
the last thousand events or so was smaller, unless it has made more errors.

A `FeatureMachine` rests where the others' loss is less than 2% above that of all, and does not
come closer to that: it is looked at after each 1,024 events, rests for 8,192 at first and twice as
many each time, without an end, and is tried again for 3,072. All others are always active."""
GIVEN_TO_MULTI_KERNEL: dict[str, Option] = {
    "external_experts": Option(type="sequence of learners of one kernel", doc=_EXTERNAL_EXPERTS),
}
"""Parameters that are not options of the state."""
OPTIONS: dict[str, Option] = {
    "loss": Made(
        kind=Loss,
        parse=loss_from_json,
        optional=True,
        about="of numbers: squared, huber, quantile (mixed by absolute errors)",
        or_by=str,
        doc=_LOSS,
    ),
    "class_weight": Option(
        saved=False,
        about="balanced, or LABEL:WEIGHT,...; the rest 1 (all 1)",
        type='"balanced" or mapping of label to float',
        doc=_CLASS_WEIGHT,
    ),
    "effort": Real(
        most=1e6,
        optional=True,
        about="for a learned metric, relative to the others; 0: without (1)",
        doc="Operations that the `FeatureMachine` by default may spend, relative to those of "
        "all other experts and to an opening of some two seconds of one core; 0 is for no "
        "such expert, and None for no bound.",
    ),
    "max_classes": MAX_CLASSES,
    "memory": Flag(
        optional=True,
        about="of numbers: known labels as columns of an expert (True)",
        doc="Whether there is an expert of numbers that sees the labels known so far "
        "(`streamk.memory.labels`) beside the columns; it rests where the mixture is as good "
        "without it.",
    ),
    "clock": Option(
        type="str or int",
        optional=True,
        doc="The column of the times of events, in seconds, where labels are remembered: the time "
        "since the last known label, and labels of a season of time ago, are columns of that "
        "expert, too.",
    ),
    "pending_bytes": Whole(
        least=0,
        resource=True,
        about="memory for predictions without a label yet",
        doc="Memory for predictions of events whose labels are still to come; the oldest are "
        "dropped.",
    ),
    "seed": SEED,
    "threads": THREADS,
}
