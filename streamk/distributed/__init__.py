"""Work shared among machines by Ray."""

from streamk.distributed.centers import ActorShards
from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel

__all__ = ["ActorShards", "ShardedLandmarks", "oasis_parallel"]
