"""The simulation makes the very turns that the engine makes, on the same clock."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from archer.costs.workload import PassShare, recorded
from archer.engine.engine import Engine
from archer.engine.generate import Stream
from archer.engine.handle import Listener
from archer.model import Model, load
from archer.planning import simulation
from archer.planning.simulation import UNBOUNDED, EngineScheduler, SimulatedTurn, simulate
from archer.request.request import Request
from archer.results.step import Step
from planning.drawing import COSTS
from support.folders import make_llada

METHODS = ("archer", "saber", "llada-confidence", "fast-dllm-cache", "saber+age:3")
Told = list[tuple[float, tuple[int, ...]]]
"""When each turn began, and who took part."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True)
    return load(folder, device="cpu", dtype="float64")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Heard(Listener):
    number: int
    steps: list[tuple[int, PassShare]]

    def stepped(self, step: Step[Any]) -> None:
        self.steps.append((self.number, PassShare.of(step)))


class Noted(EngineScheduler):
    """The simulated engine, with its turns written down."""

    def __init__(self, budget: int, memory: int) -> None:
        super().__init__(budget, memory)
        self.told: Told = []

    def turn(self, now: float) -> SimulatedTurn | None:
        before = {asked: asked.updates for asked in (*self._running, *self._waiting)}
        made = super().turn(now)
        if made is not None:
            who = [asked.number for asked, had in before.items() if asked.updates > had]
            self.told.append((now, tuple(sorted(who))))
        return made


def by_engine(
    model: Model, asked: list[Request], times: list[float], budget: int, memory: int
) -> tuple[Told, dict[int, float]]:
    """Real requests on a real engine whose clock is moved by the simulated cost of every turn."""
    clock, steps = Clock(), list[tuple[int, PassShare]]()
    engine = Engine(model, budget=budget, memory=memory, clock=clock)
    told: Told = []
    ended: dict[int, float] = {}
    coming = sorted(range(len(asked)), key=lambda number: (times[number], number))
    running: dict[int, Any] = {}
    while coming or running:
        now = clock.now if running else max(clock.now, times[coming[0]])
        while coming and times[coming[0]] <= now:
            number = coming.pop(0)
            clock.now = times[number]
            running[number] = engine.enqueue(asked[number], listener=Heard(number, steps))
        clock.now = now
        steps.clear()
        engine.turn()
        told.append((now, tuple(sorted({number for number, _ in steps}))))
        clock.now = now + COSTS.seconds([share for _, share in steps])
        for number in [number for number, handle in running.items() if handle.done]:
            running.pop(number)
            ended[number] = clock.now
    return told, ended


@pytest.mark.parametrize(
    ("budget", "rows"), [(1, 99), (24, 99), (60, 99), (60, 2), (UNBOUNDED, 99)]
)
def test_turn_by_turn(model: Model, budget: int, rows: int) -> None:
    draw = random.Random(budget + rows)
    asked, times = [], []
    for number in range(14):
        prompt = tuple(draw.choices(range(5, 30), k=draw.randint(2, 24)))
        length = draw.choice((4, 8, 12))
        asked.append(model.request([prompt], METHODS[number % len(METHODS)], length=length))
        times.append(round(draw.uniform(0, 2), 3))
    shape = model.network.shape
    column = 2 * shape.layers * shape.kv_heads * shape.head_dim * model.dtype.itemsize
    memory = rows * 36 * column
    drawn = []
    for request in asked:
        (form,), length = request.prompts, request.method.length
        trajectory = recorded(form.prompt_tokens, length, Stream(model, request))
        drawn.append(
            simulation.SimulatedRequest(trajectory, (form.prompt_tokens + length) * column)
        )
    noted: list[Noted] = []

    def make() -> Noted:
        noted.append(Noted(budget, memory))
        return noted[-1]

    ran = simulate(drawn, times, make, COSTS)
    told, ended = by_engine(model, asked, times, budget, memory)
    assert len(told) > len(asked)
    assert noted[0].told == told
    assert {each.number: each.ended for each in ran.answered} == ended
