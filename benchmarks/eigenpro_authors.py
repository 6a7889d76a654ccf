"""One pass of the authors' PyTorch code (github.com/EigenPro/EigenPro3), for `rivals`.

It runs in an interpreter that has torch, and SciPy before 1.14:
``PYTHON -m benchmarks.eigenpro_authors CODE DATA``, with a copy of their repository and an npz
file of X, y, centers, test_X and test_y. It prints JSON: seconds of their setup (the
preconditioner), seconds and test accuracy after each batch and of the whole. Time to test is not
counted. Options are theirs: 5,000 events and 500 directions for the preconditioner, from which
batch size and step size follow.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

BANDWIDTH = 5.0


def run(code: Path, data: Path) -> dict[str, Any]:
    """Learn all events once, as their `KernelModel.fit` does."""
    import numpy as np
    import torch

    sys.path.insert(0, str(code))
    try:
        import torchvision  # noqa: F401
    except ImportError:  # their module of data sets wants it, none of which is used here
        sets = types.ModuleType("torchvision.datasets")
        for name in ("MNIST", "EMNIST", "FashionMNIST", "KMNIST", "CIFAR10"):
            setattr(sets, name, None)
        sys.modules |= {"torchvision": types.ModuleType("torchvision"), sets.__name__: sets}
    from eigenpro3.kernels import laplacian
    from eigenpro3.models import KernelModel

    with np.load(data) as arrays:
        X, Z, test = (torch.from_numpy(arrays[name]) for name in ("X", "centers", "test_X"))
        y, labels = torch.from_numpy(arrays["y"]), arrays["test_y"]
    torch.manual_seed(0)
    classes = int(y.max()) + 1
    targets = torch.nn.functional.one_hot(y, classes).float()

    def kernel(x: Any, z: Any) -> Any:
        return laplacian(x, z, bandwidth=BANDWIDTH)

    began = time.perf_counter()
    model = KernelModel(classes, Z, kernel, y=targets, X=X)
    setup = time.perf_counter() - began
    curve, seconds = [], setup
    for loader in model.train_loaders:
        for batch in loader:
            began = time.perf_counter()
            model.fit_batch(*batch)
            seconds += time.perf_counter() - began
            said = (kernel(test, model.centers) @ model.weights).argmax(dim=1).numpy()
            curve.append([round(seconds, 3), float(np.mean(said == labels))])
    return {
        "torch": torch.__version__,
        "batch_size": model.batch_size,
        "setup": setup,
        "seconds": seconds,
        "accuracy": curve[-1][1],
        "curve": curve,
    }


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = run(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps(found))
