"""Work shared among processes and machines."""

from streamk.distributed.centers import ActorShards
from streamk.distributed.division import TaskDivision
from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel
from streamk.distributed.processes import Processes
from streamk.distributed.ray_workers import RayWorkers
from streamk.distributed.rounds import Rounds
from streamk.learners.sharded.replicas import Batch

__all__ = [
    "ActorShards",
    "Batch",
    "Processes",
    "RayWorkers",
    "Rounds",
    "ShardedLandmarks",
    "TaskDivision",
    "oasis_parallel",
]
