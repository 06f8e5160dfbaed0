"""What is tried: decoders times caches times a few values of their settings, as tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

from archer.errors import BadRequest
from archer.methods.build import Choice, Method
from archer.methods.compatibility import check_attention
from archer.methods.own_files import bring
from archer.methods.spelling import in_full, parse_setting
from archer.model import Model
from archer.network.shape import Dense
from archer.policies.prompt_cache import Archer, Late
from archer.policies.surprise import Surprise

REFERENCE = "saber"
"""Its operations are the unit of cost; it is always a candidate and takes part to the end."""


class Candidate(Choice):
    """A method as it is spelled, with the settings that its name does not hold."""

    @property
    def label(self) -> str:
        """As `parsed` takes it."""
        return ",".join(
            [self.method, *(f"{name}={value}" for name, value in self.settings.items())]
        )


Part = tuple[str, Mapping[str, Any]]

REVISING: Sequence[Part] = (
    ("saber", {}),
    ("saber-doubt", {}),
    ("saber", {"doubt": 0.99}),
    ("wino", {}),
)
"""Decoders that take tokens back, and so need a cache that recomputes the response."""
KEEPING_THE_PROMPT = (
    "eager",
    "archer:4",
    "archer:8",
    "archer:16",
    "late:0.25",
    "late:0.5",
    "late:1",
    "surprise:0.1",
    "surprise:0.3",
    "surprise:0.6",
)
FILLING: Sequence[Part] = (
    ("confidence", {}),
    ("factor", {}),
    ("threshold:0.9", {}),
    ("no-rollback", {}),
)
"""Decoders that never look back."""
KEEPING_MORE = ("eager", "archer:8", "late:0.5", "surprise:0.3", "dual", "prefix", "dkv-decode")
BOLDER: Sequence[Part] = (
    ("threshold:0.95", {}),
    ("threshold:0.99", {}),
    ("factor:0.5", {}),
    ("entropy-bound:0.01", {}),
    ("entropy-bound:0.1", {}),
)
"""More of these: at the price of one of them taking tokens back has to show what it is worth."""
AT_ONCE = (2, 4)
"""Tokens per update of a schedule, besides one."""
CAPPED: Sequence[Part] = tuple(("saber-doubt", {"cap": cap}) for cap in (0.999, 0.99, 0.95, 0.9))
FOLLOWING = ("late:0.5", "surprise:0.3")
"""Caches for what can decode on a canvas that follows the answer, and for all that is bolder."""
CUT = {"canvas": "auto"}
OTHERS: Sequence[Part] = (
    ("confidence+dllm-cache", {}),
    ("saber-tail+late:0.5", {"wake": "look"}),
    ("saber-tail+late:0.5", {"wake": "look", "doubt": 1.0, "doubt_by": "kept"}),
    ("llada2+archer", {}),
    ("llada2-edit+archer", {}),
)
"""Pairs of their own; of these and of all others only what goes with the model is tried."""


ALIKE_WHERE_EXACT = (Archer, Late, Surprise)
"""They differ in when they refresh the prompt; where no prompt sees the response none of them has to."""


def usual(model: Model, length: int) -> list[Candidate]:
    """Everything in the tables that goes with the model and with responses of this length."""
    candidates: dict[str, Candidate] = {}
    exact = not isinstance(model.folder.shape.attention, Dense)
    for each in _all(length):
        try:
            key = _key(checked(each, model, length), exact)
        except BadRequest:
            continue
        candidates.setdefault(key, each)
    return list(candidates.values())


def _all(length: int) -> Iterator[Candidate]:
    yield Candidate(REFERENCE)
    scheduled = [("confidence", {"steps": max(1, length // many)}) for many in AT_ONCE]
    bold = [*BOLDER, *scheduled]
    pairs = chain(
        product(REVISING, KEEPING_THE_PROMPT),
        product(FILLING, KEEPING_MORE),
        product([*bold, *CAPPED], FOLLOWING),
        product(
            [(name, {**given, **CUT}) for name, given in (*FILLING, *bold, *CAPPED)], FOLLOWING
        ),
    )
    for (decoder, settings), cache in pairs:
        yield Candidate(f"{decoder}+{cache}", settings)
    for method, settings in OTHERS:
        yield Candidate(method, settings)


def given(texts: Sequence[str], model: Model, length: int) -> list[Candidate]:
    """Candidates of the user's own, with the reference; the first that cannot work is refused.

    They may be code in files, which is run: the user has named them.
    """
    candidates: dict[str, Candidate] = {}
    for each in (Candidate(REFERENCE), *map(parsed, texts)):
        bring(each.method)
        candidates.setdefault(_key(checked(each, model, length)), each)
    return list(candidates.values())


def checked(candidate: Candidate, model: Model, length: int) -> Method:
    """Its method, if it goes with the model."""
    method = candidate.build(replace(model.folder.recommended, length=length))
    check_attention(method, model.folder.shape.attention)
    return method


def parsed(text: str) -> Candidate:
    """`saber+late:0.5,doubt=0.99`: a method, then settings."""
    method, *entries = text.split(",")
    settings = [parse_setting(entry) for entry in entries]
    if None in settings:
        raise BadRequest(
            f"A candidate is METHOD,NAME=VALUE,... such as saber+late:0.5,doubt=0.99, not {text!r}."
        )
    return Candidate(method.strip(), dict(filter(None, settings)))


def _key(method: Method, exact: bool = False) -> str:
    """The same for two spellings of one method; `exact`: the model is one on which prompt caches are."""
    name, settings = in_full(method.name), dict(method.settings)
    if exact and isinstance(method.policy, ALIKE_WHERE_EXACT):
        name = name.partition("+")[0]
        settings = {
            key: value for key, value in settings.items() if not hasattr(method.policy, key)
        }
    numbers = {key: _number(value) for key, value in settings.items()}
    return json.dumps([name, numbers], sort_keys=True)


def _number(value: Any) -> Any:
    """A radius of 8 is one of 8.0."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
