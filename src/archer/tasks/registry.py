"""The tasks by name: a literal table."""

from __future__ import annotations

from archer.errors import BadRequest
from archer.tasks.base import Task
from archer.tasks.finqa import FinQA
from archer.tasks.humaneval import HumanEval, HumanEvalET
from archer.tasks.livecodebench import LiveCodeBench, LiveCodeBenchSamples
from archer.tasks.math500 import Math500
from archer.tasks.mbpp import Mbpp, MbppET
from archer.tasks.pocket import (
    Pocket,
    PocketConfirm,
    PocketConfirmLong,
    PocketDev,
    PocketDevLong,
    PocketLong,
)
from archer.tasks.pubmedqa import PubMedQA
from archer.tasks.sources import Data

TASKS: dict[str, type[Task]] = {
    "humaneval": HumanEval,
    "humaneval-et": HumanEvalET,
    "mbpp": Mbpp,
    "mbpp-et": MbppET,
    "livecodebench": LiveCodeBench,
    "livecodebench-samples": LiveCodeBenchSamples,
    "math500": Math500,
    "finqa": FinQA,
    "pubmedqa": PubMedQA,
    "pocket": Pocket,
    "pocket-long": PocketLong,
    "pocket-dev": PocketDev,
    "pocket-dev-long": PocketDevLong,
    "pocket-confirm": PocketConfirm,
    "pocket-confirm-long": PocketConfirmLong,
}


def open_task(name: str, data: Data | None = None) -> Task:
    """A task by name, with its data where `Data` finds them."""
    if name not in TASKS:
        raise BadRequest(f"There is no task {name!r}. The tasks are {', '.join(TASKS)}.")
    return TASKS[name](data or Data())
