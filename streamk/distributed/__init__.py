"""Work shared among processes and machines."""

from streamk.distributed.actors import ActorShards
from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel
from streamk.distributed.rounds import Processes, RayWorkers, Rounds, TaskDivision
from streamk.learners.sharded.replicas import ShardBatch

__all__ = [
    "ActorShards",
    "Processes",
    "RayWorkers",
    "Rounds",
    "ShardBatch",
    "ShardedLandmarks",
    "TaskDivision",
    "oasis_parallel",
]
