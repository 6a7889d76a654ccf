"""Learners: models that predict batches of events and learn them."""

from streamk.learners.base import Learner
from streamk.learners.common.steps import AdaGrad, Constant, InverseTime, Ladder, Step
from streamk.learners.contest.learner import Contest
from streamk.learners.doubly_stochastic.learner import DoublyStochastic
from streamk.learners.eigenpro.learner import EigenPro
from streamk.learners.feature_machine.learner import FeatureMachine
from streamk.learners.kernel_ridge.learner import OnlineKernelRidge
from streamk.learners.meka.learner import StreamingMeka
from streamk.learners.multi_kernel.learner import MultiKernel
from streamk.learners.nystrom.learner import OnlineNystrom
from streamk.learners.registry import MODELS, create, from_state
from streamk.learners.scaled.learner import Scaled
from streamk.learners.sharded.learner import Sharded

__all__ = [
    "MODELS",
    "AdaGrad",
    "Constant",
    "Contest",
    "DoublyStochastic",
    "EigenPro",
    "FeatureMachine",
    "InverseTime",
    "Ladder",
    "Learner",
    "MultiKernel",
    "OnlineKernelRidge",
    "OnlineNystrom",
    "Scaled",
    "Sharded",
    "Step",
    "StreamingMeka",
    "create",
    "from_state",
]
