"""The part of the judge that runs in other processes: zygote, sandboxed program, test.

These modules use the standard library and each other, nothing else. The judge sends their source to
a fresh interpreter that has never seen a test; see `archer.judge.zygote_process`.
"""
