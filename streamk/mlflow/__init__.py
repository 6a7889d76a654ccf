"""Saves, logs and registers the checkpoints of jobs as models in MLflow.

``pip install 'streamk[mlflow]'`` brings MLflow, which is imported when a function here is called.
The files are those of the checkpoint, JSON and arrays; there is no pickle among them, and no code.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamk import __version__
from streamk.engine.checkpoints.files import key_of, read_bytes, sizes
from streamk.engine.checkpoints.places import Remote, location
from streamk.engine.checkpoints.reading import Checkpoint, newest_of_all, shared_file
from streamk.engine.checkpoints.segment_files import SEGMENTS, SUFFIX
from streamk.errors import InvalidInput
from streamk.trained import TrainedModel, load

__all__ = ["load_model", "log_model", "save_model"]

Place = str | os.PathLike[str] | Remote
_FLAVOR = "streamk"


def save_model(
    checkpoint: Place,
    path: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    mlflow_model: Any = None,
    **options: Any,
) -> None:
    """Save the newest model of a job as an MLflow model.

    It has the flavours ``streamk``, for `load_model`, and ``python_function``, whose ``predict``
    takes a DataFrame or a list of dicts and returns labels or numbers.

    Parameters
    ----------
    checkpoint : path or str
        As of `streamk.load`.
    path : path
        A directory that is not there yet.
    key : path, optional
        File with the key that the checkpoint must be signed with.
    mlflow_model : mlflow.models.Model, optional
        To add the flavours to; MLflow gives it.
    **options
        Of `mlflow.pyfunc.save_model`, as ``signature``, ``input_example``, ``metadata`` or
        ``pip_requirements``, which are this version of streamk by default.

    Raises
    ------
    InvalidInput
        If MLflow is not installed, or there is no checkpoint.
    StateError
        If it is damaged, or not signed with the key.
    """
    mlflow = _imported()
    found = newest_of_all(location(checkpoint), key_of(key))
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    with tempfile.TemporaryDirectory() as folder:
        data = _copy(found, Path(folder) / found.path.parent.name)
        where = data.relative_to(folder)
        about = {"data": f"data/{where}", "streamk_version": __version__, "epoch": found.epoch}
        model.add_flavor(_FLAVOR, **about)
        mlflow.pyfunc.save_model(
            path=os.fspath(path),
            loader_module=__name__,
            data_path=str(data.parent),
            mlflow_model=model,
            **{"pip_requirements": [f"streamk=={__version__}"], **options},
        )


def log_model(checkpoint: Place, name: str, **options: Any) -> Any:
    """Log the newest model of a job in the active run; start a run if there is none.

    Raises as `save_model` does.

    Parameters
    ----------
    checkpoint : path or str
        As of `streamk.load`.
    name : str
        That of the logged model.
    **options
        Of `save_model`, and of `mlflow.models.Model.log`, as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    mlflow = _imported()
    options = {"name": name, "flavor": sys.modules[__name__], "checkpoint": checkpoint, **options}
    return mlflow.models.Model.log(artifact_path=None, **options)


def load_model(model_uri: str, *, key: str | os.PathLike[str] | None = None) -> TrainedModel:
    """Open a model that `save_model` or `log_model` has kept.

    Parameters
    ----------
    model_uri : str
        A path, or an address as ``models:/clicks/3`` or ``runs:/…/model``.
    key : path, optional
        File with the key that the checkpoint must be signed with.

    Returns
    -------
    TrainedModel

    Raises
    ------
    InvalidInput
        If MLflow is not installed, or the model is not one of streamk.
    StateError
        If the checkpoint is damaged, or not signed with the key.
    """
    mlflow = _imported()
    path = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri))
    flavors: Mapping[str, Any] = mlflow.models.Model.load(str(path)).flavors
    if _FLAVOR not in flavors:
        raise InvalidInput(
            f"{model_uri} is not a streamk model; its flavors are {', '.join(flavors)}"
        )
    return load(path / str(flavors[_FLAVOR]["data"]), key=key)


class _Predicting:
    """A python_function, as MLflow calls it."""

    def __init__(self, model: TrainedModel) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> list[Any]:
        """Return labels or numbers of a DataFrame, or of a list of dicts."""
        del params
        rows = model_input
        if hasattr(model_input, "to_dict"):
            rows = model_input.to_dict("records")
        return self._model.predict_many(rows)


def _load_pyfunc(path: str) -> _Predicting:
    """Open what `save_model` kept, as MLflow asks for it."""
    return _Predicting(load(path))


def _imported() -> Any:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError as error:
        raise InvalidInput(
            f"streamk.mlflow needs MLflow ({error}): pip install 'streamk[mlflow]'"
        ) from None
    return mlflow


def _copy(found: Checkpoint, folder: Path) -> Path:
    """Copy the files of a checkpoint into a directory of its name, and those of rows beside it."""
    data = folder / found.path.name
    if isinstance(found.path, Path):
        shutil.copytree(found.path, data)
    else:
        data.mkdir(parents=True)
        for name in sizes(found.path):
            (data / name).write_bytes((found.path / name).read())
    for name in found.rows:
        (folder / SEGMENTS).mkdir(exist_ok=True)
        copy = folder / SEGMENTS / f"{name}{SUFFIX}"
        copy.write_bytes(read_bytes(shared_file(found.path, name)))
    return data
