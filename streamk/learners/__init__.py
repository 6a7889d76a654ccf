"""What learns: models that are fed batches of events and predict them."""

from streamk.learners.base import Learner
from streamk.learners.doubly_stochastic import DoublyStochastic
from streamk.learners.multi_kernel import MultiKernel
from streamk.learners.online_nystrom import OnlineNystrom
from streamk.learners.registry import MODELS, create, from_state
from streamk.learners.scaled import Scaled
from streamk.learners.steps import AdaGrad, Constant, InverseTime, Step
from streamk.learners.streaming_meka import StreamingMeka

__all__ = [
    "MODELS",
    "AdaGrad",
    "Constant",
    "DoublyStochastic",
    "InverseTime",
    "Learner",
    "MultiKernel",
    "OnlineNystrom",
    "Scaled",
    "Step",
    "StreamingMeka",
    "create",
    "from_state",
]
