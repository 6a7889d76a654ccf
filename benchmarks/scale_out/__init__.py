"""What it costs to learn in rounds of shards, `streamk.distributed.Rounds`."""
