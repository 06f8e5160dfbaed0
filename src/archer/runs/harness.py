"""Samples of a run in the format of the lm-evaluation-harness, for tools that read its files.

One object per line, with the keys that the harness writes by `--log_samples`: doc, target, arguments,
responses before and after extraction, metrics, and sha256 of doc, prompt and target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archer.runs.folder import Recorded
from archer.tasks.base import Sample, Task
from archer.tasks.grading import extracted_or_nothing

FILTER = "repaired"
"""The harness's name for how a response was read."""


def harness_lines(
    task: Task, samples: Sequence[Sample], prompts: Mapping[str, str], recorded: Recorded
) -> Iterator[str]:
    """One line per graded problem; `prompts` are the texts that the model was given."""
    targets = {str(reference.id): reference.text for reference in task.references()}
    for number, sample in enumerate(samples):
        key = str(sample.id)
        if key in recorded.grades:
            target = targets.get(key, "")
            line = _line(number, task, sample, prompts[key], target, recorded)
            yield json.dumps(line, ensure_ascii=False, default=str) + "\n"


def _line(
    number: int, task: Task, sample: Sample, prompt: str, target: str, recorded: Recorded
) -> dict[str, Any]:
    done, grade = recorded.samples[str(sample.id)], recorded.grades[str(sample.id)]
    doc, response = dict(sample.row), done.completion
    metrics = {
        task.metric if suite == "base" else f"{task.metric}_{suite}": float(grade.passed(suite))
        for suite in grade.suites
    }
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"max_gen_toks": len(done.tokens)}}},
        "resps": [[response]],
        "filtered_resps": [extracted_or_nothing(task, response, sample)],
        "filter": FILTER,
        "metrics": list(metrics),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False, default=str)),
        "prompt_hash": _hash(prompt),
        "target_hash": _hash(target),
        **metrics,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
