"""Work shared among machines by Ray."""

from streamk.distributed.oasis import ShardedLandmarks, oasis_parallel

__all__ = ["ShardedLandmarks", "oasis_parallel"]
