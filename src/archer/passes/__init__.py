"""One question to the network and its answer. Knows no decoder and no policy."""
