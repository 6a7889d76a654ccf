"""River's own loop with streamk's models in it: predict, learn, and put away for later.

    python demos/river_loop.py

A kernel classifier goes through River's data set Phishing event by event, beside River's logistic
regression, and then through a pickle, as any model of River.
"""

from __future__ import annotations

import pickle

from river import datasets, evaluate, linear_model, metrics, preprocessing

from streamk.adapters.river import KernelClassifier


def main() -> None:
    """Compare two models in River's own loop."""
    models = {
        "streamk's kernel classifier": KernelClassifier(seed=1),
        "River's logistic regression": preprocessing.StandardScaler()
        | linear_model.LogisticRegression(),
    }
    for name, model in models.items():
        # Each event is predicted before it is learned.
        result = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
        print(f"{name}: {result}")

    model = models["streamk's kernel classifier"]
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301 (its own, a line ago)
    x, label = next(iter(datasets.Phishing()))
    print(f"an event labelled {label}: {model.predict_proba_one(x)}")
    print(f"after a pickle:         {twin.predict_proba_one(x)}")


if __name__ == "__main__":
    main()
