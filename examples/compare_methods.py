"""The same prompt by several methods: what each writes, and what it costs."""

import archer

PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
METHODS = ("llada-confidence", "saber", "archer:4", "archer:16", "no-rollback", "dkv-decode")

model = archer.load("pocket")
for method in METHODS:
    (done,) = model.generate(PROBLEM, method)
    program = " ".join(done.text.split())
    print(f"{method:18} {done.full_passes:3} full {done.cached_passes:3} cached  {program}")
