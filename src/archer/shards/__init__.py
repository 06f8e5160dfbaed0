"""One model over several devices: the first shard is the whole program, the others are its arithmetic."""
