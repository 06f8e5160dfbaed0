"""Measuring the judge: what is timed is what it says, and nothing is left. No time is asserted."""

import re
from collections.abc import Iterator

import pytest

from archer.bench import judge as measure
from archer.bench.judge import Speed, Spread
from archer.cli import main
from archer.errors import BadRequest
from archer.judge import Verdict
from archer.judge.program_run import Bench
from archer.judge.tiers import open_bench
from archer.judge.zygote_process import WARM_CHILDREN, ZygoteProcess

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    _, opened = open_bench(None, False, ())
    yield opened
    opened.close()


def waiting(zygote: ZygoteProcess) -> int:
    return len(zygote._warm) + len(zygote._ordered)


def test_an_emptied_zygote_forks_on_demand_and_then_ahead_again(bench: Bench) -> None:
    bench.programs.settle()
    assert waiting(bench.programs) == WARM_CHILDREN
    bench.programs.empty()
    assert waiting(bench.programs) == 0
    assert bench.programs._alive == {}
    child = bench.programs.take()
    assert child.prepared is not None
    bench.programs.release(child)
    bench.programs.replenish()
    assert waiting(bench.programs) == 1


def test_a_settled_child_can_be_taken(bench: Bench) -> None:
    bench.tests.settle()
    bench.tests.settle()
    child = bench.tests.take()
    assert child.lived(1.0) > 1.0
    bench.tests.release(child)
    assert bench.tests.wait_for_exit(child) < 0


def test_the_spread_is_in_milliseconds() -> None:
    tenths = [0.001 * number for number in range(11)]
    assert Spread.of(tenths) == Spread(best=0.0, median=5.0, ninth_decile=9.0)


def test_a_small_measurement_says_what_it_measured() -> None:
    found = measure.measure(samples=2, programs=3).to_dict()
    assert found["tier"] in ("A", "B")
    assert (found["samples"], found["programs"]) == (2, 3)
    assert found["per_second"] > 0
    for name in ("first", "first_verdict", "warm", "warm_verdict", "warm_check"):
        assert 0 < found[name]["best"] <= found[name]["median"] <= found[name]["ninth_decile"]
    for sooner, later in (
        ("first", "first_verdict"),
        ("warm", "warm_verdict"),
        ("warm_verdict", "warm_check"),
    ):
        assert found[sooner]["best"] < found[later]["best"]


@pytest.mark.parametrize(("samples", "programs"), [(1, 1), (2, 0)])
def test_too_small_a_measurement_is_refused(samples: int, programs: int) -> None:
    with pytest.raises(BadRequest, match=f"not {samples} and {programs}"):
        measure.measure(samples, programs)


def test_a_judge_that_fails_honest_programs_is_not_measured() -> None:
    with pytest.raises(BadRequest, match="an honest program got fail: wrong answer"):
        measure._must_pass(Verdict("fail", "wrong answer"))


MACHINE = {"cpu": "Fast", "cores": 2, "load": 0.5, "platform": "Linux", "python": "3.11"}
NAMES = "first", "first_verdict", "warm", "warm_verdict", "warm_check"
SPREADS = {
    name: Spread(best, best + 0.25, best + 0.5)
    for name, best in zip(NAMES, (5.0, 6.0, 0.5, 0.75, 1.0), strict=True)
}


def made(samples: int, programs: int) -> Speed:
    return Speed("A", SPREADS, 99.5, samples, programs, MACHINE)


def test_the_table(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", made)
    assert main(["bench", "judge"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("tier A, samples 100, programs 300. Fast, 2 cores, Python 3.11, load 0.5.")
    rows = [line for line in lines if re.match(r"\| (first|warm)", line)]
    assert rows[0] == "| first answer | 5.00 | 5.25 | 5.50 |"
    assert [row.split(" | ")[1] for row in rows] == ["5.00", "6.00", "0.50", "0.75", "1.00"]
    assert "All cores together judge 99.5 programs a second." in lines[-2]
