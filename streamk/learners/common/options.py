"""Options that several learners have."""

from __future__ import annotations

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.common.steps import Step, step_from_json
from streamk.losses import Loss, loss
from streamk.options import Choice, Made, Option, Real, Whole

OF_KERNEL_LEARNERS: dict[str, Option] = {
    "kernel": Made(
        kind=Kernel, parse=kernels.from_json, about="one of the kernels below but linear (gaussian)"
    ),
    "loss": Made(
        kind=Loss,
        parse=lambda saved: loss(**saved),
        about="one of the losses below (softmax; regression: squared)",
    ),
}
"""Options of each learner that has one kernel."""
OF_OPTIMIZERS: dict[str, Option] = {
    "optimizer": Choice(choices=("sgd", "newton"), about="sgd, or newton where nothing drifts"),
    "step": Made(
        kind=Step,
        parse=step_from_json,
        optional=True,
        about="of sgd, see below, not adagrad (1; regression: 0.5)",
    ),
    "regularization": Real(about="weight of the function's norm (0; newton: 0.1)"),
    "forgetting": Real(
        open_below=True, most=1.0, about="of newton: what an event counts after the next"
    ),
}
"""Options of a learner whose function is linear in coordinates."""
TOL = Real(most=1.0, open_above=True, about="least squared distance from the others, below 1")
SEED = Whole(least=0, most=2**64 - 1)
MAX_CLASSES = Whole(least=2, resource=True, about="labels past so many classes are bad events")
THREADS = Whole(
    optional=True,
    saved=False,
    about="OMP_NUM_THREADS or all cores by default; results are the same",
)


def check_classification(**options: object) -> None:
    """Raise InvalidInput if one of the options, which are for classification, is given."""
    for name, value in options.items():
        if value:
            raise InvalidInput(f"{name}= is for classification; leave it out or change the task")
