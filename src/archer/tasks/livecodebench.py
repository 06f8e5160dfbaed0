"""LiveCodeBench release_v1 (400 problems), with hidden tests or with the statements' samples only."""

import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from archer.judge import Check, FunctionCheck, Limits, StdinCheck
from archer.judge.checks import MIB
from archer.tasks.base import CodeTask, FromRows, Reference, Sample, Suite, Variant, user
from archer.tasks.sources import (
    LIVECODEBENCH,
    LIVECODEBENCH_ACCEPTED,
    LIVECODEBENCH_SAMPLES,
    BadData,
)

MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins"),
    "typing",
)
"""What every program may use without importing it: all their names, and the modules themselves."""
PRELUDE = "".join(f"from {name} import *\n" for name in MODULES) + (
    "".join(f"import {name}\n" for name in MODULES) + "sys.setrecursionlimit(50000)\n"
)
ENTRY_POINT = "archer_entry_point"
OPENING = (
    "You will be given a question (problem specification) and will generate a correct Python program "
    "that matches the specification and passes all tests. You will NOT return anything except for "
    "the program."
)
WITH_STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose your "
    "code within delimiters."
)
WITH_STDIN = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly "
    "test on the sample inputs). Enclose your code within delimiters as follows. Ensure that when "
    "the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT."
)
TEST = """
import json
def check(candidate):
    answer = candidate(*[json.loads(line) for line in {given!r}.split("\\n")])
    if isinstance(answer, tuple):
        answer = list(answer)
    assert answer == json.loads({expected!r})
"""


class LiveCodeBench(FromRows, CodeTask):
    """Graded on the public and the hidden tests of code_generation_lite."""

    name = "livecodebench"
    metric = "pass@1"
    files = (LIVECODEBENCH,)
    limits = Limits(cpu_seconds=6, wall_seconds=30, memory_bytes=1024 * MIB)
    """Per test. The official 6 seconds are counted as processor time, so that a busy machine costs no
    program its verdict; the wall clock only ends those that sleep."""
    packages = ("numpy",)
    """Accepted programs use it, and the official runner has it."""

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        starter = row["starter_code"]
        how, code = (WITH_STARTER, starter) if starter else (WITH_STDIN, "# YOUR CODE HERE")
        question = f"Question:\n{row['question_content']}\n"
        content = f"{OPENING}\n\n{question}{how}\n```python\n{code}\n```\n\n"
        return Sample(row["question_id"], user(content), "", row)

    def references(self) -> Iterator[Reference]:
        """Programs that the authors of the benchmark accepted."""
        for row in self.data.rows(LIVECODEBENCH_ACCEPTED):
            if row["graded"]:
                yield Reference(row["question_id"], row["code"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        if variant == "as_published":
            return str(self.read("livecodebench_published", response))
        function = self.function(sample.row)
        return str(self.read("livecodebench_repaired", response, function=function))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        """One check per test: each has the whole time limit and a program without a past."""
        name = self.function(sample.row)
        source = PRELUDE + program
        return tuple(
            StdinCheck(source, ((test["input"], test["output"]),), self.limits)
            if name is None
            else self._call(source, name, test)
            for test in self.tests(sample.row)
        )

    def _call(self, source: str, name: str, test: Mapping[str, str]) -> FunctionCheck:
        target = f"Solution().{name}" if "class Solution" in source else name
        adapter = f"\n\ndef {ENTRY_POINT}(*given):\n    return {target}(*given)\n"
        source_of_test = TEST.format(given=test["input"], expected=test["output"])
        return FunctionCheck(source + adapter, ENTRY_POINT, source_of_test, (), self.limits)

    def tests(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        """The tests of a problem, unpacked when they are needed."""
        return read_tests(row["public_test_cases"]) + read_tests(row["private_test_cases"])

    def function(self, row: Mapping[str, Any]) -> str | None:
        """The method to be called, or None for a program that reads stdin."""
        name: str | None = json.loads(row["metadata"]).get("func_name")
        return name


class LiveCodeBenchSamples(LiveCodeBench):
    """Graded on the samples in the statements: an upper bound of the real score, and not called so."""

    name = "livecodebench-samples"
    metric = "samples_passed"
    files = (LIVECODEBENCH_SAMPLES,)

    def tests(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        tests: list[dict[str, str]] = row["sample_tests"]
        return tests

    def function(self, row: Mapping[str, Any]) -> str | None:
        name: str | None = row["func_name"]
        return name


LARGEST = 1 << 30
"""Bytes of unpacked tests; guards against a small field that unpacks to anything."""
PROTOCOLS = range(2, 6)
TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
STORES = ("MEMOIZE", "BINPUT", "LONG_BINPUT")
"""Numbering the text, in case it came again."""
MOST_OPERATIONS = 6
"""Protocol, text, store and stop, and frames around the text, which only help readers to buffer."""


def read_tests(field: str) -> list[dict[str, str]]:
    """The tests of a field, packed or plain JSON; each has `input`, `output`, `testtype`.

    The data set packs them as base64, zlib and a pickle, which can run code. All it ever pickles is one
    string, so the few forms in which pickle writes one are accepted, unread by pickle, and nothing else.
    """
    text = field if field.lstrip().startswith("[") else _unpacked(field)
    try:
        tests = json.loads(text)
    except ValueError as error:
        raise BadData(f"The tests of a problem are not JSON ({error}).") from None
    if not isinstance(tests, list) or not all(map(_is_test, tests)):
        raise BadData("The tests of a problem are not a list of inputs and outputs.")
    return tests


def _is_test(test: Any) -> bool:
    fields = ("input", "output", "testtype")
    return isinstance(test, dict) and all(isinstance(test.get(name), str) for name in fields)


def _unpacked(field: str) -> str:
    try:
        packed = base64.b64decode(field, validate=True)
        inflater = zlib.decompressobj()
        content = inflater.decompress(packed, LARGEST)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise BadData(f"The packed tests of a problem are damaged ({error}).") from None
    if inflater.unconsumed_tail or not inflater.eof or inflater.unused_data:
        raise BadData("The packed tests of a problem are cut off, too long, or followed by more.")
    return pickled_text(content)


def pickled_text(content: bytes) -> str:
    """The text that a pickle of exactly one text holds; its operations are listed, never carried out."""
    try:
        listed = list(islice(pickletools.genops(content), MOST_OPERATIONS))
    except ValueError:
        raise _refusal() from None
    operations = [(kind.name, value, at) for kind, value, at in listed if kind.name != "FRAME"]
    match operations:
        case [("PROTO", protocol, _), (kind, str(text), _), (store, _, _), ("STOP", _, end)]:
            whole = end == len(content) - 1
            if protocol in PROTOCOLS and kind in TEXTS and store in STORES and whole:
                return text
    raise _refusal()


def _refusal() -> BadData:
    return BadData(
        "The packed tests of a problem hold something else than one text; they are not unpickled."
    )
