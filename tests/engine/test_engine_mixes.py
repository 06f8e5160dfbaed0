"""The law through the engine: drawn requests, cancels, budgets and shortages change nobody else's updates."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from archer.engine.handle import Handle, Listener
from archer.engine.job import Options
from archer.engine.walk import steps_of
from archer.errors import ArcherError, BadRequest, Cancelled, OutOfMemory
from archer.model import Model, load
from archer.passes.forward import Question
from archer.results.step import Step
from engine.breaking import failing, failing_halfway
from engine.mixes import Drawn, Record, draw_request, record

REQUESTS = 6
SEEDS = 8
SHORTAGE = 0.03
"""How often a pass finds no memory, and how often one loses it on its way."""


class Recorded(Listener):
    """The updates of a request and how it ended."""

    def __init__(self) -> None:
        self.updates: Record = []
        self.error: ArcherError | None = None

    def stepped(self, step: Step[Any]) -> None:
        self.updates.append(record(step))

    def failed(self, error: ArcherError) -> None:
        self.error = error


def draw_accepted(model: Model, draw: random.Random) -> Drawn:
    while True:
        request = draw_request(draw, shift=False)
        try:
            model.request(request.asked, request.method)
        except BadRequest:
            continue
        return request


def alone(model: Model, request: Drawn) -> Record:
    rows = request.samples if request.method.decoder.draws else 1
    asked = model.request(request.asked, request.method, seed=request.seed)
    prompt = model.language.prompt(asked.prompts[0], request.seed, rows)
    state = asked.method.decoder.start(prompt, asked.method.length)
    return [record(step) for step in steps_of(model.network, asked.method, state)]


def updates_alone(request: Drawn, wanted: Record) -> list[int]:
    """Of each sample: a row that is done takes part in no more; samples that draw nothing are one row."""
    counted = [sum(row in update[1] for update in wanted) for row in range(request.samples)]
    return counted if request.method.decoder.draws else [counted[0]] * request.samples


def served(
    model: Model, requests: Sequence[Drawn], draw: random.Random
) -> list[tuple[Recorded, Handle]]:
    """In one engine, with a drawn budget and bound; some are cancelled at a drawn turn."""
    each = max(
        model.engine().submit(r.asked, r.method, n=r.samples)._job.most_bytes for r in requests
    )
    engine = model.engine(budget=draw.choice([8, 40, 200, 1024]), memory=draw.randint(1, 4) * each)
    waiting, made = list(requests), []
    for _ in range(10_000):
        while waiting and draw.random() < 0.6:
            request, heard = waiting.pop(0), Recorded()
            options = Options(n=request.samples, isolated=draw.random() < 0.1)
            asked = model.request(request.asked, request.method, seed=request.seed)
            made.append((heard, engine.enqueue(asked, options, heard)))
        if made and draw.random() < 0.06:
            draw.choice(made)[1].cancel()
        engine.turn()
        if not waiting and all(handle.done for _, handle in made):
            break
    status = engine.status()
    assert (status.waiting, status.running, status.bytes_used) == (0, 0, 0)
    return made


def mixed(model: Model, seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How requests ended; each made the updates it makes alone, all of them or those before its end."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        draw = random.Random(seed)
        requests = [draw_accepted(model, draw) for _ in range(REQUESTS)]
        expected = [alone(model, request) for request in requests]
        with monkeypatch.context() as patch:

            def short(parts: Sequence[Question], draw: random.Random = draw) -> bool:
                return draw.random() < SHORTAGE

            failing(patch, short, torch.OutOfMemoryError("drawn"))
            failing_halfway(patch, short, torch.OutOfMemoryError("drawn"), layer=0)
            found = served(model, requests, draw)
        for request, (heard, handle), wanted in zip(requests, found, expected, strict=True):
            assert heard.updates == wanted[: len(heard.updates)], (seed, request)
            if heard.error is None:
                assert len(heard.updates) == len(wanted), (seed, request)
                made = [each.updates for each in handle.results()]
                assert made == updates_alone(request, wanted), (seed, request)
            else:
                assert isinstance(heard.error, Cancelled | OutOfMemory), (seed, request)
            ended[type(heard.error).__name__] += 1
    return ended


def test_drawn_requests_of_an_engine_come_out_as_if_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = mixed(model, range(SEEDS), monkeypatch)
    assert ended.total() == SEEDS * REQUESTS
    assert ended["NoneType"] > 2 * REQUESTS
    assert ended["Cancelled"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_two_thousand_requests_of_an_engine_come_out_as_if_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    ended = mixed(model, range(1000 + part * 70, 1000 + (part + 1) * 70), monkeypatch)
    assert ended.total() == 70 * REQUESTS
    assert ended["NoneType"] > ended.total() // 2
    assert min(ended["Cancelled"], ended["OutOfMemory"]) > 0


class Scores(Listener):
    """The logits of every update."""

    def __init__(self) -> None:
        self.seen: list[list[Tensor]] = []

    def stepped(self, step: Step[Any]) -> None:
        self.seen.append([row.values.clone() for row in step.logits.rows])


def test_isolated_requests_get_the_same_bits_as_alone() -> None:
    """In float32, where the shape of a product decides how it rounds."""
    pocket = load("pocket", device="cpu")
    prompts = [f"Write a function that adds {k} to each of nums.\ndef solve(nums):" for k in (2, 3)]
    engine, heard = pocket.engine(), Scores()
    isolated = engine.submit(prompts[0], "archer", length=16, isolated=True, listener=heard)
    engine.submit(prompts[1], "archer", length=24)
    isolated.result()
    alone = list(pocket.stream(prompts[0], "archer", length=16))
    assert len(heard.seen) == len(alone)
    for seen, step in zip(heard.seen, alone, strict=True):
        assert all(
            torch.equal(mine, row.values) for mine, row in zip(seen, step.logits.rows, strict=True)
        )


class Sure(Listener):
    """What stands after every update, and how sure the network was of each candidate."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def stepped(self, step: Step[Any]) -> None:
        self.seen.append(standing(step))


def standing(step: Step[Any]) -> tuple[Any, ...]:
    candidates, _ = step.logits.read(step.logits.greedy)
    return step.after.response.copy(), candidates.confidence


def diverged(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> float | None:
    """How far the confidences were apart where two decodings first wrote something else; None if never.

    Up to there both saw the same canvas, so what they decided otherwise lay within that of its limit.
    """
    for (response, sure), (other, surely) in zip(found, wanted, strict=False):
        if (response != other).any():
            return float(np.nanmax(abs(sure - surely)))
    assert len(found) == len(wanted)
    return None


def company(requests: int) -> list[float]:
    """Distances of those requests to the bundled model that came out otherwise in company, in float32."""
    pocket = load("pocket", device="cpu")
    draw = random.Random(1)
    methods = ("archer", "saber", "no-rollback", "wino+archer", "confidence+archer:8", "dkv-decode")
    kinds = ("greater than", "less than", "equal to")
    asked = [
        (
            f"Write a function to count the numbers in nums that are {draw.choice(kinds)} {k}.\n"
            "def solve(nums):",
            draw.choice(methods),
            draw.choice([16, 32]),
        )
        for k in range(requests)
    ]
    engine, heard = pocket.engine(budget=512), [Sure() for _ in asked]
    handles = [
        engine.submit(prompt, method, length=length, listener=listener)
        for (prompt, method, length), listener in zip(asked, heard, strict=True)
    ]
    for handle in handles:
        handle.result()
    found = []
    for (prompt, method, length), listener in zip(asked, heard, strict=True):
        wanted = [standing(step) for step in pocket.stream(prompt, method, length=length)]
        apart = diverged(listener.seen, wanted)
        if apart is not None:
            found.append(apart)
    return found


@pytest.mark.parametrize("requests", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_in_float32_company_shows_rarely_and_where_margins_are_below_rounding(
    requests: int,
) -> None:
    found = company(requests)
    assert all(apart < 1e-5 for apart in found), found
    assert len(found) <= 5, found
