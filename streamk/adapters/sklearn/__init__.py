"""Kernel learners and factorizations as scikit-learn estimators, and landmarks as transformers."""

try:
    import sklearn  # noqa: F401 (for a message that says what to install)
except ImportError as error:
    raise ImportError(
        f"streamk.adapters.sklearn needs scikit-learn ({error}): pip install 'streamk[sklearn]'"
    ) from error

from streamk.adapters.sklearn import clusters, landmarks, points, streams
from streamk.adapters.sklearn.clusters import *  # noqa: F403
from streamk.adapters.sklearn.landmarks import *  # noqa: F403
from streamk.adapters.sklearn.points import *  # noqa: F403
from streamk.adapters.sklearn.streams import *  # noqa: F403

__all__ = [*clusters.__all__, *landmarks.__all__, *points.__all__, *streams.__all__]
