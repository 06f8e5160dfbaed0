"""What the paper's main table says, by benchmark and method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archer.runs.comparison import Run

MODEL = "llada-8b-instruct"
"""Whose scores they are: the last part of its hub id, or of the folder that it is in."""

BY_TASK: dict[str, dict[str, list[float | None]]] = {
    "mbpp": {
        "llada-confidence": [43.56, 30.44, 14.31, 1.00],
        "fast-dllm-cache": [44.50, 31.62, 11.85, 1.21],
        "fast-dllm-parallel": [40.05, 29.27, 3.40, 4.21],
        "dkv-decode": [45.67, 32.32, 12.62, 1.13],
        "dkv-greedy": [23.19, 18.27, 12.36, 1.16],
        "dllm-cache": [44.03, 32.32, 9.28, 1.54],
        "saber": [44.03, 31.38, 8.45, 1.69],
        "archer": [44.50, 32.55, 6.20, 2.31],
    },
    "livecodebench": {
        "llada-confidence": [8.75, None, 28.98, 1.00],
        "fast-dllm-cache": [7.75, None, 12.75, 2.27],
        "fast-dllm-parallel": [8.25, None, 4.85, 5.98],
        "dkv-decode": [10.00, None, 17.66, 1.64],
        "dkv-greedy": [2.00, None, 21.25, 1.36],
        "dllm-cache": [10.00, None, 11.53, 2.51],
        "saber": [7.25, None, 17.75, 1.63],
        "archer": [10.00, None, 9.81, 2.95],
    },
    "humaneval": {
        "llada-confidence": [43.29, 35.37, 19.86, 1.00],
        "fast-dllm-cache": [41.46, 36.59, 11.95, 1.66],
        "fast-dllm-parallel": [41.46, 36.59, 4.60, 4.32],
        "dkv-decode": [42.07, 35.98, 14.54, 1.37],
        "dkv-greedy": [15.24, 14.63, 15.82, 1.26],
        "dllm-cache": [40.24, 34.15, 10.16, 1.96],
        "saber": [44.51, 37.20, 12.13, 1.64],
        "archer": [43.29, 37.80, 8.07, 2.46],
    },
}
"""Pass@1 base and extended in per cent, seconds, speedup."""

PAPER: dict[str, Any] = {
    "where": "Table 1, LLaDA-8B-Instruct: Pass@1 base and extended, seconds, speedup",
    **BY_TASK,
    "overall": {
        "llada-confidence": [32.28, 1.00],
        "fast-dllm-cache": [32.38, 1.71],
        "fast-dllm-parallel": [31.12, 4.84],
        "dkv-decode": [33.21, 1.38],
        "dkv-greedy": [14.67, 1.26],
        "dllm-cache": [32.15, 2.00],
        "saber": [32.87, 1.65],
        "archer": [33.63, 2.57],
    },
}


def score_in_paper(run: Run, extended: bool) -> float | None:
    """None where the paper has no such score, or the run is of another model than the paper's."""
    model = str(run.circumstances.get("model", ""))
    if Path(model).name.lower() != MODEL or run.identity["model"].get("architecture") != "llada":
        return None
    task, method = run.identity["task"]["name"], run.identity["method"]["name"]
    base, further, *_ = BY_TASK.get(task, {}).get(method, [None, None])
    return further if extended else base
