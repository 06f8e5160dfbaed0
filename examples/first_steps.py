"""Load the model that comes with Archer and let it solve a problem."""

import archer

PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""

model = archer.load("pocket")
(done,) = model.generate(PROBLEM)

print(PROBLEM.splitlines()[-1] + done.text)
print(f"\n{done.full_passes} full passes, {done.cached_passes} cached ones")
