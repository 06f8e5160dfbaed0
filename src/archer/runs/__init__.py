"""Evaluation runs: folders that explain themselves, survive anything and can be compared.

`docs/evaluate.md` describes what is in a run folder and what happens when a run is interrupted.
"""
