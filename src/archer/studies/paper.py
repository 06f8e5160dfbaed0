"""Scores of the paper's main table, to stand beside ours: LLaDA-8B-Instruct, in per cent."""

from __future__ import annotations

MAIN: dict[str, dict[str, tuple[float, float | None]]] = {
    "mbpp": {
        "llada-confidence": (43.56, 30.44),
        "fast-dllm-cache": (44.50, 31.62),
        "fast-dllm-parallel": (40.05, 29.27),
        "dkv-decode": (45.67, 32.32),
        "dkv-greedy": (23.19, 18.27),
        "dllm-cache": (44.03, 32.32),
        "saber": (44.03, 31.38),
        "archer": (44.50, 32.55),
    },
    "livecodebench": {
        "llada-confidence": (8.75, None),
        "fast-dllm-cache": (7.75, None),
        "fast-dllm-parallel": (8.25, None),
        "dkv-decode": (10.00, None),
        "dkv-greedy": (2.00, None),
        "dllm-cache": (10.00, None),
        "saber": (7.25, None),
        "archer": (10.00, None),
    },
    "humaneval": {
        "llada-confidence": (43.29, 35.37),
        "fast-dllm-cache": (41.46, 36.59),
        "fast-dllm-parallel": (41.46, 36.59),
        "dkv-decode": (42.07, 35.98),
        "dkv-greedy": (15.24, 14.63),
        "dllm-cache": (40.24, 34.15),
        "saber": (44.51, 37.20),
        "archer": (43.29, 37.80),
    },
}
"""Task -> method -> base and extended."""


def score_in_paper(task: str, method: str, *, extended: bool) -> float | None:
    """None where the paper has no such score."""
    base, further = MAIN.get(task, {}).get(method, (None, None))
    return further if extended else base
