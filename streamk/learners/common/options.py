"""Options that several learners have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.common.steps import Step, step_from_json
from streamk.losses import KINDS, Loss, loss
from streamk.options import Choice, Made, Option, Real, Whole


@dataclass(frozen=True, kw_only=True)
class OfKernel(Made):
    """The kernel of a learner."""

    kind: type = Kernel
    parse: Callable[[Any], Any] = kernels.from_json
    names: tuple[str, ...]
    """Of the kernels that the learner takes."""
    more: str
    """Sentences about it, however it is given."""

    def by_name(self) -> OfKernel:
        """Return the option of a model, which makes the kernel of a name."""
        names = ", ".join(f'"{name}"' for name in self.names)
        doc = f"{names}, or one of `streamk.kernels` of these. {self.more}".rstrip()
        return replace(self, or_by=str, doc=doc)


def of_kernel(
    *but: str, doc: str = "", default: str = "", optional: bool = False, of_features: bool = False
) -> OfKernel:
    """Return the option of a learner that takes all kernels but those of these names.

    `doc` has more sentences about it, `default` is in words, where None is one, and `of_features`
    tells whether it takes those too that have random features alone.
    """
    names = [name for name in kernels.KERNELS if of_features or name not in _OF_FEATURES]
    names = [name for name in names if name not in but]
    *most, last = (kernels.KERNELS[name].__name__ for name in names)
    about = f"one of those below but {' and '.join(but)}"
    own = "Its bandwidth is in the unit of the columns; `Scaled` gives them a common one."
    return OfKernel(
        names=tuple(names),
        more=doc,
        optional=optional,
        about=f"{about} ({default})" if default else about,
        doc=f"{', '.join(most)} or {last}. {own} {doc}".rstrip(),
    )


_OF_FEATURES = ("polynomial", "arc_cosine", "zonal")
KERNEL = of_kernel("linear")


def _losses(classes: bool, numbers: bool) -> str:
    """Return the names of the losses of just these tasks, for a sentence."""
    tasks = classes, numbers
    found = [code for code, kind in KINDS.items() if (kind.classifies, kind.regresses) == tasks]
    *most, last = (f'"{code.name.lower()}"' for code in found)
    return f"{', '.join(most)} and {last}" if most else last


_FLAT = [f'"{code.name.lower()}"' for code, kind in KINDS.items() if kind.curvature is None]
_WITHOUT_CURVATURE = f"The losses {', '.join(_FLAT[:-1])} and {_FLAT[-1]}"
LOSS = Made(
    kind=Loss,
    parse=lambda saved: loss(**saved),
    about="one of the losses below (softmax; regression: squared)",
    doc='A name, or `streamk.losses.loss("quantile", q=0.9)`, say. '
    f"{_losses(True, False)} learn classes; {_losses(False, True)} numbers; "
    f'{_losses(True, True)} either. By default "softmax" for classes and "squared" for numbers.',
    or_by=str,
)
OF_OPTIMIZERS: dict[str, Option] = {
    "optimizer": Choice(
        choices=("sgd", "newton"),
        about="sgd, or newton where nothing drifts",
        doc='Gradient steps follow a stream that changes. "newton" takes steps of second order, '
        "which get more out of each event where it does not: with the squared loss they are "
        "recursive least squares, the least sum of squared errors after each event on landmarks "
        f"that stay. {_WITHOUT_CURVATURE} have no curvature for them. "
        "Of l landmarks a gradient step takes the time of some l^2 multiplications, and the other "
        "thrice that.",
    ),
    "step": Made(
        kind=Step,
        parse=step_from_json,
        optional=True,
        about="of sgd, see below, not adagrad (1; regression: 0.5)",
        doc="Of gradient steps, ``Constant(1.0)`` by default; see `streamk.learners.common.steps`. "
        "Not AdaGrad: its sums belong to single coordinates, and these turn where a landmark goes.",
    ),
    "regularization": Real(
        about="weight of the function's norm (0; newton: 0.1)",
        doc="Of gradient steps the factor of ``|f|^2 / 2`` beside the mean loss, 0 by default; of "
        '"newton" that beside the sum of all losses, 0.1 by default.',
    ),
    "forgetting": Real(
        open_below=True,
        most=1.0,
        about="of newton: what an event counts after the next",
        doc='Of "newton": an event counts by this factor less for each one after it.',
    ),
}
"""Options of a learner whose function is linear in coordinates."""
TOL = Real(
    most=1.0,
    open_above=True,
    about="least squared distance from the others, below 1",
    doc="Squared distance, below 1, that an event's kernel must have from the landmarks' span to "
    "become one.",
)
SEED = Whole(least=0, most=2**64 - 1, doc="Of all that is drawn at random.")
MAX_CLASSES = Whole(
    least=2,
    resource=True,
    about="labels past so many classes are bad events",
    doc="Classes that there may be. An event whose label would be one more is refused: learning "
    "raises, and `streamk run` counts it as a bad event. If more are given as `classes`, there "
    "are these.",
)
THREADS = Whole(
    optional=True,
    saved=False,
    about="OMP_NUM_THREADS or all cores by default; results are the same",
)
GIVEN: dict[str, Option] = {
    "task": Choice(
        choices=("classification", "regression"),
        doc="What labels are. Where it is None it follows from the loss, except that "
        '"squared" is regression.',
    ),
    "columns": Option(
        type="sequence of str or int",
        doc="Names of the columns; ``range(d)`` at the first batch by default.",
    ),
    "classes": Option(
        type="sequence of str, int or bool",
        optional=True,
        doc="Labels known beforehand, in the order wanted; others are added as they come.",
    ),
}
"""Parameters of learners that are not options."""
OF_DOMAIN = "InvalidInput\n    If an option is out of its domain."
"""The error of constructors, as a section of a docstring."""


def check_classification(**options: object) -> None:
    """Raise InvalidInput if one of the options, which are for classification, is given."""
    for name, value in options.items():
        if value:
            raise InvalidInput(f"{name}= is for classification; leave it out or change the task")
