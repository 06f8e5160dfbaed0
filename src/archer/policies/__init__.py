"""Cache policies: each is the set of columns it recomputes."""
