"""The parts of a header that are the same for each model, with the model's name in them."""

from __future__ import annotations

import re
from importlib import resources

from streamk.backends import LANES

__all__ = ["core", "part", "renamed"]

_BACKEND = "streamk.backends.cupy_backend"


def part(file: str, name: str) -> str:
    """Return a file of the folder `c` for a model of that name."""
    folder = resources.files("streamk.prediction.export") / "c"
    return renamed((folder / f"{file}.h").read_text("utf-8"), name)


def core(name: str) -> str:
    """Return the functions that the kernels of the CuPy backend have, too, for a CPU.

    >>> "static inline int net_leaf(" in core("net")
    True
    """
    kernels = resources.files(_BACKEND) / "kernels"
    text = (kernels / "local_core.h").read_text("utf-8").partition("*/\n")[2]
    for word, ours in (
        ("INLINE", "static inline"),
        ("UNROLL", "MODEL_VECTOR"),
        ("APART", "MODEL_APART"),
        ("LANES", str(LANES)),
        ("whole", "int"),
        ("fused_real", "model_fused"),
    ):
        text = re.sub(rf"\b{word}\b", ours, text)
    return part("vectors", name) + renamed(re.sub(r"\blocal_", "model_", text), name)


def renamed(text: str, name: str) -> str:
    """Return a text with a name in the place of "model".

    >>> renamed("model_scores(x, MODEL_H)", "net")
    'net_scores(x, NET_H)'
    """
    return re.sub(r"\bMODEL_", f"{name.upper()}_", re.sub(r"\bmodel_", f"{name}_", text))
