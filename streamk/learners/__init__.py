"""Learners: models that predict batches of events and learn them."""

from streamk.learners.common.base import Learner
from streamk.learners.common.steps import AdaGrad, Constant, InverseTime, Ladder, Step
from streamk.learners.doubly_stochastic.doubly_stochastic import DoublyStochastic
from streamk.learners.eigenpro.eigenpro import EigenPro
from streamk.learners.kernel_ridge import OnlineKernelRidge
from streamk.learners.meka.streaming import StreamingMeka
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.nystrom import OnlineNystrom
from streamk.learners.registry import MODELS, create, from_state
from streamk.learners.remembering import EntityMemory
from streamk.learners.rfm.feature_machine import FeatureMachine
from streamk.learners.scaled import Scaled

__all__ = [
    "MODELS",
    "AdaGrad",
    "Constant",
    "DoublyStochastic",
    "EigenPro",
    "EntityMemory",
    "FeatureMachine",
    "InverseTime",
    "Ladder",
    "Learner",
    "MultiKernel",
    "OnlineKernelRidge",
    "OnlineNystrom",
    "Scaled",
    "Step",
    "StreamingMeka",
    "create",
    "from_state",
]
