"""Evaluation runs: folders that explain themselves, survive anything and can be compared."""
