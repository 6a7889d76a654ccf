"""Each learner, event by event and in batches."""

from __future__ import annotations

from typing import Any

from streamk.learners import create
from streamk.learners.registry import from_state

from .common import events

OPTIONS: dict[str, dict[str, Any]] = {
    "multi-kernel": {"external_experts": ()},
    "doubly-stochastic": {},
    "online-nystrom": {"max_landmarks": 128},
    "streaming-meka": {"rank": 32, "n_clusters": 2, "first": 256},
}


class Learn:
    """Learning, predicting, and saving; models have learned 512 events before."""

    params = tuple(OPTIONS)
    param_names = ("learner",)
    timeout = 300

    def setup(self, name: str) -> None:
        X, y = events(1024)
        labels = y.astype(str).tolist()
        self.model = create(name, task="classification", seed=1, **OPTIONS[name])
        self.model.learn_many(X[:512], labels[:512])
        self.X, self.labels = X[512:], labels[512:]
        self.time_batches(name)
        self.time_events(name)
        self.time_predict(name)

    def time_batches(self, name: str) -> None:
        self.model.predict_then_learn_many(self.X, self.labels)

    def time_events(self, name: str) -> None:
        for x, label in zip(self.X[:64], self.labels, strict=False):
            self.model.predict_one(x)
            self.model.learn_one(x, label)

    def time_predict(self, name: str) -> None:
        self.model.predict_proba_many(self.X)

    def time_saved_and_restored(self, name: str) -> None:
        from_state(self.model.state())
