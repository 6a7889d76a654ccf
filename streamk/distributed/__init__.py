"""Work shared among processes and machines."""

from streamk.distributed.centers import ActorShards
from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel
from streamk.distributed.processes import Processes
from streamk.distributed.replicas import Batch
from streamk.distributed.rounds import Rounds
from streamk.distributed.shard_workers import ShardWorkers

__all__ = [
    "ActorShards",
    "Batch",
    "Processes",
    "Rounds",
    "ShardWorkers",
    "ShardedLandmarks",
    "oasis_parallel",
]
