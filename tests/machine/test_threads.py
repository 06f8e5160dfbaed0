"""Threads by the size of the network, unless the user said otherwise; nothing is left behind."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from archer.errors import BadRequest
from archer.machine.threads import WORTH_A_THREAD, computing, fitting
from archer.model import load
from support.processes import ran


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(
    ("parameters", "threads"),
    [(1, 1), (2 * WORTH_A_THREAD - 1, 1), (2 * WORTH_A_THREAD, 2), (8_000_000_000, 4)],
)
def test_a_network_gets_as_many_threads_as_it_is_worth(parameters: int, threads: int) -> None:
    assert fitting(parameters, environment={}) == threads


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_the_user_said_stands(name: str) -> None:
    assert fitting(1, environment={name: "4"}) == 4
    assert fitting(1, environment={name: ""}) == 1


@pytest.mark.usefixtures("four_threads")
def test_shards_share_the_threads_of_the_machine() -> None:
    assert [fitting(8_000_000_000, shards, {}) for shards in (1, 2, 3, 8)] == [4, 2, 1, 1]
    assert fitting(2 * WORTH_A_THREAD, 2, {}) == 1
    assert fitting(1, 2, {"OMP_NUM_THREADS": "4"}) == 4


@pytest.mark.usefixtures("four_threads")
def test_threads_are_put_back_whatever_happens() -> None:
    with computing(2):
        assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), computing(2):
        _ = 1 / 0
    with computing(None):
        assert torch.get_num_threads() == 4
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
def test_a_generation_computes_with_its_threads_and_leaves_those_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    model = load("pocket", device="cpu")
    assert model.threads == 1
    seen: list[int] = []
    embed = model.network.embed

    def watched(ids: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return embed(ids)

    monkeypatch.setattr(model.network, "embed", watched)
    next(model.stream("def solve(nums):"))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 4
    assert load("pocket", device="cpu", threads=3).threads == 3


@pytest.mark.parametrize("threads", [0, -1, 513, 100_000, 2.5, True])
def test_threads_that_would_end_the_process_are_refused(threads: Any) -> None:
    wanted = "threads must be a whole number from 1 to 512, not"
    with pytest.raises(BadRequest, match=f"{wanted} {threads}"):
        load("pocket", threads=threads)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("said", "threads"), [(None, 1), ("2", 2)])
def test_the_command_line_computes_with_one_thread_on_pocket_unless_told(
    said: str | None, threads: int
) -> None:
    script = (
        "import torch; torch.set_num_threads(2)\n"
        "from archer.cli.options import ModelOptions\n"
        "ModelOptions().load(); print(torch.get_num_threads())"
    )
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    variables = kept if said is None else kept | {"OMP_NUM_THREADS": said}
    assert ran(sys.executable, "-c", script, env=variables).stdout.split() == [str(threads)]
