"""Checks made from the reference solutions of HumanEval and MBPP."""

import ast
import gzip
import json
import warnings
from typing import Any

from archer.judge import FunctionCheck, Limits
from conftest import shared

LIMITS = Limits(cpu_seconds=10, wall_seconds=30)
SLOW = Limits(cpu_seconds=60, wall_seconds=120)
SLOW_MBPP = 123


def humaneval() -> list[FunctionCheck]:
    path = shared("data", "humaneval", "HumanEval.jsonl.gz")
    with gzip.open(path, "rt") as file:
        return [_humaneval_check(json.loads(line)) for line in file]


def _humaneval_check(row: dict[str, Any]) -> FunctionCheck:
    """As the task does it: the test of problem 33 also calls the function by its name."""
    return FunctionCheck(
        row["prompt"] + row["canonical_solution"],
        row["entry_point"],
        helpers(row["prompt"], row["entry_point"]) + row["test"],
        expose=(row["entry_point"],),
        limits=LIMITS,
    )


def helpers(prompt: str, entry_point: str) -> str:
    """What a prompt defines besides the entry point: the test's own copy, out of reach."""
    tree = ast.parse(prompt)
    kept = [node for node in tree.body if getattr(node, "name", "") != entry_point]
    return "".join(f"{ast.unparse(node)}\n" for node in kept)


def mbpp() -> dict[int, FunctionCheck]:
    """By task id. Some of the programs contain escapes that Python warns of."""
    path = shared("data", "mbpp", "mbpp_sanitized.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {row["task_id"]: _mbpp_check(row) for row in rows}


def _mbpp_check(row: dict[str, Any]) -> FunctionCheck:
    test = "\n".join(row["test_imports"] + row["test_list"])
    called = [node.func for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Call)]
    names = {node.id for node in called if isinstance(node, ast.Name)}
    defined = [
        node.name for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)
    ]
    entry_point = next(name for name in defined if name in names)
    limits = SLOW if row["task_id"] == SLOW_MBPP else LIMITS
    return FunctionCheck(row["code"], entry_point, test, limits=limits)
