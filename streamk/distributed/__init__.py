"""Work shared among processes and machines."""

from streamk.distributed.actors import ActorShards
from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel
from streamk.distributed.replicas import ShardBatch
from streamk.distributed.rounds import Processes, RayWorkers, Rounds, TaskDivision
from streamk.distributed.sharded import Sharded

__all__ = [
    "ActorShards",
    "Processes",
    "RayWorkers",
    "Rounds",
    "ShardBatch",
    "Sharded",
    "ShardedLandmarks",
    "TaskDivision",
    "oasis_parallel",
]
