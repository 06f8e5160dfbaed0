"""Benchmarks: their data, prompts, extraction and grading.

    task = open_task("humaneval")
    for sample in task.samples(): ...

Independent of models. `docs/tasks.md` describes the protocol of each task.
"""

from archer.tasks.base import AnswerTask, CodeTask, Infill, Reference, Sample, Suite, Task, Variant
from archer.tasks.registry import ALL_TASKS, TASKS, open_task
from archer.tasks.sources import BadData, Data

__all__ = [
    "ALL_TASKS",
    "TASKS",
    "AnswerTask",
    "BadData",
    "CodeTask",
    "Data",
    "Infill",
    "Reference",
    "Sample",
    "Suite",
    "Task",
    "Variant",
    "open_task",
]
