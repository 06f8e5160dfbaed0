"""Several samples of several prompts, in one call: n, temperature, stop strings and a batch size."""

import archer

PROBLEMS = [
    "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):",
    "Write a function to return the largest of nums.\nassert solve([1, 2]) == 2\ndef solve(nums):",
]

model = archer.load("pocket")
samples = model.generate(PROBLEMS, "saber", temperature=0.5, seed=1, n=3, batch=4, stop=["\n\n"])
for number, done in enumerate(samples):
    print(f"prompt {number // 3 + 1}, sample {number % 3 + 1}: {' '.join(done.text.split())}")
