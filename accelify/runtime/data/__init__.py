"""What each process sees of the data: its shard of an epoch, from where, drawn from which random state."""
