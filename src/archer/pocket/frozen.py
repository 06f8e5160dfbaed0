"""The published sets of problems with worked examples, checked against digests when read."""

import gzip
import hashlib
import json
from importlib.resources import files
from typing import Literal

from archer.errors import BadRequest
from archer.pocket.problems import Problem

HeldOut = Literal["dev", "test", "confirm", "confirm3"]
SIZES: dict[HeldOut, int] = {"dev": 200, "test": 400, "confirm": 1000, "confirm3": 1500}
DIGESTS: dict[HeldOut, str] = {
    "dev": "1831a14cda23683666015fb7da5a47455c83c78f28610f499ba10baebb6264a5",
    "test": "7511d9c3de3686fca98b913434956c355ca5d2996519f3c450aba5c1e2ca3d76",
    "confirm": "d2763338282399d508f4cd8970f3ec5f7c6287cee542665e93542aa64c2f5ee5",
    "confirm3": "88ee6f9d230c6b45401f178c2b6ec93ca3d995255b6076c20024e8b692111497",
}
"""sha256 of each file."""
EXAMPLES: dict[HeldOut, str] = {
    "dev": "c641dca5b7e9af7e4a6bee997c2c20537ba77f95a1b49737669506ea654ba1a5",
    "test": "7a580ebae36fbef02d4bff278b98a9a5fd75d07e2d0ce6a7054c734abc820d64",
    "confirm": "c401cc808bffdeb901e7f7843d4f0decde0bcfe132f5b48376ab46c7be476314",
    "confirm3": "095a6877c9590baed7f990c430ef67507331d7685ce7d539fca8ed0155b1580f",
}
"""sha256 of each file of worked examples."""


def load(split: HeldOut) -> list[Problem]:
    """The problems of a set, from its file."""
    return parse(read(f"{split}.jsonl"), split)


def parse(data: bytes, split: HeldOut) -> list[Problem]:
    """The problems in a set's bytes; refused when they are not the published ones."""
    check(data, DIGESTS[split], f"The {split} set of pocket is")
    return [Problem.of(json.loads(line)) for line in data.decode("ascii").splitlines()]


def load_examples(split: HeldOut) -> dict[str, list[str]]:
    """By the name of a problem, the worked examples of its long prompt."""
    return parse_examples(read(f"examples-{split}.json.gz"), split)


def parse_examples(data: bytes, split: HeldOut) -> dict[str, list[str]]:
    """The worked examples in a file's bytes; refused when they are not the published ones."""
    check(data, EXAMPLES[split], f"The worked examples of the {split} set of pocket are")
    examples: dict[str, list[str]] = json.loads(gzip.decompress(data))
    return examples


def read(name: str) -> bytes:
    """A data file of the package."""
    return files("archer.pocket").joinpath(f"data/{name}").read_bytes()


def check(data: bytes, published: str, subject: str) -> None:
    """Refuse bytes that have another sha256 than was published; `subject` opens the sentence."""
    digest = hashlib.sha256(data).hexdigest()
    if digest != published:
        raise BadRequest(
            f"{subject} damaged: the sha256 is {digest[:12]}..., "
            f"not {published[:12]}... Install the package again."
        )
