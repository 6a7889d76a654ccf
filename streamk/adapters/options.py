"""Estimators from tables of options: signature, docstring, and the advice on other options.

An estimator is a class with a summary for a docstring. `estimator` gives it an ``__init__`` that
takes the options of a table, and the rest of the docstring; `of_learner` takes the table of a
learner, so that River's estimators, scikit-learn's and `streamk run --set` have one.
"""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from streamk.errors import InvalidInput, shown
from streamk.kernels import Kernel
from streamk.learners.common.predictor import Turns
from streamk.learners.registry import LEARNERS, options_of
from streamk.memory.entities import MAX_ENTITIES
from streamk.options import Option, Whole, joined, of_parameters, parameters, sections

Kind = TypeVar("Kind", bound=type)


def estimator(
    options: Mapping[str, Option],
    *,
    advice: Mapping[str, str] | None = None,
    by_place: Collection[str] = (),
    example: str = "",
) -> Callable[[Kind], Kind]:
    """Return a decorator of an estimator that takes options.

    Options have defaults, in the order of the signature; those of `by_place`, the first ones, may
    be given without their name. Its ``__init__`` keeps them as they are, as scikit-learn and River
    want it, and calls ``_begin``, where there is one. `advice` is what to give instead of
    options that other libraries have: InvalidInput says it.

    The docstring gets their section, and the attributes of base classes; "Raises" and "Examples"
    come from these where the class has none: the last one from their template ``_EXAMPLE``, with
    the options of `example`.

    Examples
    --------
    >>> from streamk.options import Real
    >>> @estimator({"bandwidth": Real(default=1.0)}, advice={"gamma": "give bandwidth"})
    ... class Model:
    ...     "Learn."
    >>> Model(bandwidth=0.5).bandwidth
    0.5
    >>> Model.__doc__.splitlines()[-1]
    'bandwidth : float, default 1'
    >>> Model(gamma=2)
    Traceback (most recent call last):
    ...
    streamk.errors.InvalidInput: Model has no option gamma=2: give bandwidth
    >>> Model(bandwith=2)
    Traceback (most recent call last):
    ...
    TypeError: Model has no option bandwith=2: did you mean bandwidth?
    """

    def decorate(kind: Kind) -> Kind:
        """Return the class with an `__init__` and the sections of its docstring."""
        made: Any = kind
        made._options = dict(options)
        made.__init__ = _init(kind, options, by_place, advice or {})
        if kind.__doc__:
            made.__doc__ = joined(_inherited(kind, example) | {"Parameters": parameters(options)})
        return kind

    return decorate


def _check_names(
    made: str, given: Mapping[str, Any], known: Sequence[str], advice: Mapping[str, str]
) -> None:
    """Raise an error that says what to give instead of an option that there is not."""
    for name, value in given.items():
        if name in known:
            continue
        said = f"{made} has no option {name}={shown(value)}: "
        if name in advice:
            task = "Regressor" if made.endswith("Regressor") else "Classifier"
            raise InvalidInput(said + advice[name].format(task))
        raise TypeError(said + _meant(name, known))


def _init(
    kind: type,
    options: Mapping[str, Option],
    by_place: Collection[str],
    advice: Mapping[str, str],
) -> Any:
    """Return the `__init__` of a class with options."""
    kinds = inspect.Parameter
    signature = inspect.Signature(
        [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
        + [
            kinds(
                name,
                kinds.POSITIONAL_OR_KEYWORD if name in by_place else kinds.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
            for name, option in options.items()
        ],
        return_annotation=None,
    )

    def initialize(self: Any, *arguments: Any, **given: Any) -> None:
        _check_names(type(self).__name__, given, [*options], advice)
        bound = signature.bind(self, *arguments, **given)
        bound.apply_defaults()
        for name in options:
            setattr(self, name, bound.arguments[name])
        if hasattr(self, "_begin"):
            self._begin()

    made: Any = initialize
    made.__signature__, made.__name__ = signature, "__init__"
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__module__ = kind.__module__
    return made


_SEEDS = {"seed": "random_state", "random_state": "seed"}
"""The names of one option in River and scikit-learn."""


def _meant(name: str, known: Sequence[str]) -> str:
    """Return what to say of an option that is not among those known."""
    other = _SEEDS.get(name, "")
    if other and other not in known:
        return "leave it out, nothing in it is random"
    near = [other] if other else difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _inherited(kind: type, example: str) -> dict[str, str]:
    """Return the sections of a class's docstring, with what its bases have besides."""
    found, attributes = sections(kind.__doc__), dict[str, str]()
    for base in kind.__mro__:
        theirs = sections(vars(base).get("__doc__"))
        if not base.__module__.startswith("streamk."):
            continue
        if "Raises" in theirs:
            found.setdefault("Raises", theirs["Raises"])
        for entry in re.split(r"\n(?=\S)", theirs.get("Attributes", "")):
            attributes.setdefault(entry.partition(" : ")[0], entry)
    found["Attributes"] = "\n".join(filter(None, attributes.values()))
    template: str = getattr(kind, "_EXAMPLE", "")
    return {"Examples": template.format(name=kind.__name__, options=example)} | found


LEFT_OUT = frozenset(
    (
        *("averaging", "cache_bytes", "clock", "dtype"),
        *("max_classes", "max_width", "pending_bytes", "threads"),
    )
)
"""Options of learners that estimators do not have."""
GAMMA = {
    "gamma": "give bandwidth=1/sqrt(2*gamma) (laplacian: 1/gamma), in units of the scaled columns"
}
"""Advice on scikit-learn's `gamma`."""


def of_learner(
    model: str,
    *,
    leave_out: Collection[str] = LEFT_OUT,
    advice: Mapping[str, str] = GAMMA,
    example: str = "",
    **changed: Any,
) -> Callable[[Kind], Kind]:
    """Return a decorator of an estimator of a model of `streamk.learners.create`, see `estimator`.

    It has the model's options but those left out, then other defaults and options of its own.
    """
    declared = options_of(model)
    options = {name: option for name, option in declared.items() if name not in leave_out}
    options.pop("seed", None)
    for name, value in changed.items():
        own = isinstance(value, Option)
        options[name] = value if own else replace(options[name], default=value)

    def decorate(kind: Kind) -> Kind:
        """Return the class, which knows its learner."""
        made: Any = kind
        made._model_name, made._of_model = model, tuple(options.keys() & declared.keys())
        if kind.__doc__ and "kernel" in declared:  # which is behind a scaling of the columns
            lead, *rest = inspect.cleandoc(kind.__doc__).partition("\n\n")
            about = made._ABOUT.format(learner=LEARNERS[model].__name__)
            kind.__doc__ = "".join([lead, "\n\n", about, *rest])
        seed = {} if "seed" in made._SEED.keys() - declared.keys() else made._SEED
        return estimator(options | seed, advice=advice, example=example)(kind)

    return decorate


def chosen(made: Any) -> dict[str, Any]:
    """Return the options that an estimator passes to its model.

    The default bandwidth is none beside a kernel that has its own, or needs none; another one is,
    and `streamk.learners.create` refuses it.
    """
    found = {name: getattr(made, name) for name in made._of_model}
    kernel = found.get("kernel")
    needs_none = isinstance(kernel, Kernel) or kernel == "linear"
    if needs_none and found["bandwidth"] == made._options["bandwidth"].default:
        del found["bandwidth"]
    return found


def written(made: Any) -> str:
    """Return how an estimator is made, without the options that are as they are by default.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, *, kernel="gaussian", bandwidth=1.0):
    ...         self.kernel, self.bandwidth = kernel, bandwidth
    >>> written(Model(bandwidth=0.5))
    'Model(bandwidth=0.5)'
    """
    options = [
        f"{name}={getattr(made, name)!r}"
        for name, parameter in inspect.signature(type(made).__init__).parameters.items()
        if name != "self" and repr(getattr(made, name)) != repr(parameter.default)
    ]
    return f"{type(made).__name__}({', '.join(options)})"


_NEED_NONE = (
    "many kernels need none, leave it out; an estimator of a single kernel is DoublyStochastic{0}"
)
MANY = (
    {
        name: f"an expert has it: external_experts=[streamk.learners.FeatureMachine({name}=...)]"
        for name in options_of("feature-machine").keys() - {"seed", "max_classes"}
    }
    | dict.fromkeys(options_of("doubly-stochastic").keys() - LEFT_OUT - {"seed"}, _NEED_NONE)
    | dict.fromkeys(("gamma", "optimizer", "max_landmarks"), _NEED_NONE)
)
"""Advice on options of a single kernel, and on those of the feature machine among the experts."""


ENTITIES: dict[str, Any] = {
    "entities": Option(
        type="sequence of str",
        default=None,
        optional=True,
        doc="Fields that name entities, as users or cards: the model knows what each did before an "
        "event (`streamk.learners.EntityMemory`). An event counts when it is learned.",
    ),
    "time": Option(
        type="str",
        default=None,
        optional=True,
        doc="The field of the time of events, a time or milliseconds since 1970: for entities, and "
        "without them for the labels that a model of numbers remembers.",
    ),
    "spans": Option(
        type="sequence of float",
        default=None,
        optional=True,
        doc="Of what is known of entities, in seconds: an hour, a day and 30 days if there is a "
        "time.",
    ),
    "max_entities": Whole(
        least=1, default=MAX_ENTITIES, doc="Entities of a field that are remembered."
    ),
}
"""Options of entities, which events in their order have."""


_FITTING = ("fit", "partial_fit", "fit_transform")


class Shared:
    """An estimator that is safe for threads: each call of a method sees the attributes of one fit.

    What a method that fits has found becomes the estimator's at its end, all at once, and nothing
    does if it raises. One of them waits for the other; those that predict wait for none. The
    docstrings of methods get what they take, and of fits what they return and raise.
    """

    _GIVEN: ClassVar[dict[str, Option]]
    """Parameters of methods, by name."""
    _RAISES: ClassVar[str]
    """Errors of fits, as a section of a docstring."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, found in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(found, property):
                setattr(cls, name, property(_asking(found.fget), doc=found.__doc__))
            elif inspect.isfunction(found):
                told = {"Parameters": parameters(of_parameters(found, cls._GIVEN))}
                if name in ("fit", "partial_fit"):
                    told |= {"Returns": "self", "Raises": cls._RAISES}
                if found.__doc__:
                    found.__doc__ = joined(sections(found.__doc__) | told)
                setattr(cls, name, (_fitting if name in _FITTING else _asking)(found))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


def _asking(method: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(self: Shared, *arguments: Any, **options: Any) -> Any:
        return method(copy.copy(self), *arguments, **options)

    return asking


def _fitting(method: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def fitting(self: Shared, *arguments: Any, **options: Any) -> Any:
        turns: Turns = self.__dict__.setdefault("_turns", Turns())
        with turns.lock:
            made = copy.copy(self)
            found = method(made, *arguments, **options)
            self.__dict__ = made.__dict__
        return self if found is made else found

    return fitting
