"""`streamk models`: list models, kernels, losses and step sizes."""

from __future__ import annotations

from collections.abc import Sequence

from streamk.cli.arguments import Parser, UsageError, nearest
from streamk.cli.model_options import options_of
from streamk.cli.report import columns
from streamk.losses import KINDS

MODELS = {
    "multi-kernel": "many kernels and a feature-machine, mixed (default)",
    "doubly-stochastic": "one kernel, random features, columns scaled",
    "online-nystrom": "one kernel, events as landmarks, columns scaled",
    "streaming-meka": "one kernel, events by clusters, factorized anew, scaled",
    "kernel-ridge": "one kernel, the last events as centers, columns scaled",
    "eigenpro": "one kernel, centers that learn all events, columns scaled",
    "feature-machine": "one kernel in a metric that is learned anew, columns scaled",
}
KERNELS = {
    "gaussian": "exp(-|x-y|² / (2 bandwidth²))",
    "laplacian": "exp(-Σ|xⱼ-yⱼ| / bandwidth)",
    "power_exponential": "exp(-Σ√(|xⱼ-yⱼ| / bandwidth))",
    "matern": "Matérn of |x-y| / bandwidth with smoothness nu",
    "rational_quadratic": "(1 + |x-y|² / (2 alpha bandwidth²))^-alpha",
    "cauchy": "Π 1 / (1 + (xⱼ-yⱼ)² / bandwidth²)",
    "ntk": "neural tangent kernel: depth ReLU layers on (bandwidth, x)",
    "linear": "x·y, no bandwidth",
}
OF_FEATURES = {
    "polynomial": "(x·y / bandwidth² + offset)^degree",
    "arc_cosine": "neurons max(w·u, 0)^order, u the direction of (bandwidth, x)",
    "zonal": "harmonics of the angle of such directions, by their weights",
}
"""Kernels that have random features, but no compiled values."""
STEPS = {
    "constant:SIZE": "always the same, follows change; SIZE alone means this",
    "inverse-time:SIZE": "SIZE / (t + offset) in step t, settles down",
    "adagrad:SIZE": "a step for each coefficient; twice the memory",
    "ladder": "several sizes, the best of late predicts; doubly-stochastic",
}


def main(arguments: Sequence[str]) -> int:
    """List models, options, kernels, losses and step sizes."""
    parser = Parser("streamk models", "List the models, their options, the kernels and the losses.")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="show this model only")
    parser.add_common()
    chosen = parser.parse(arguments).get("model")
    if chosen is not None and chosen not in MODELS:
        raise UsageError(f"no model {chosen!r}{nearest(chosen, MODELS)} ({', '.join(MODELS)})")
    parts = {"models (--model NAME)": MODELS} if chosen is None else {}
    for model in MODELS if chosen is None else [chosen]:
        title = f"options of {model} (--set NAME=VALUE; the default in brackets)"
        parts[title] = {name: each.about for name, each in options_of(model).items()}
    parts |= {
        "kernels (--set kernel=NAME)": KERNELS,
        "more kernels of doubly-stochastic": OF_FEATURES,
        "losses (--set loss=NAME)": {code.name.lower(): kind.about for code, kind in KINDS.items()},
        "step sizes (--set step=RULE:SIZE)": STEPS,
    }
    print(
        "\n\n".join(
            f"{title}\n{columns(list(part.items()), indent='  ')}" for title, part in parts.items()
        )
    )
    return 0
