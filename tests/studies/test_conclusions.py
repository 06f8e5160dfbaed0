"""What a reproduction says on top: sentences from the tests, checked on results made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from archer_studies.reproduction import conclusions


def row(
    method: str, base: float, speedup: float, p: float = 1.0, task: str = "toy"
) -> dict[str, Any]:
    return {
        "task": task,
        "method": method,
        "arm": method.capitalize(),
        "n": 40,
        "base": base,
        "speedup": speedup,
        "speedup_interval": [speedup - 0.1, speedup + 0.1],
        "saber_base_p": p,
    }


@pytest.mark.parametrize(
    ("base", "p", "told"),
    [
        (72.5, 0.2, "no significant difference (p = 0.2)"),
        (72.5, 0.01, "fewer (p = 0.01)"),
        (80.0, 0.0001, "more (p < 0.001)"),
    ],
)
def test_the_difference_is_told_by_its_test(base: float, p: float, told: str) -> None:
    rows = [row("saber", 76.0, 1.3), row("archer", base, 1.6, p), row("dkv-decode", 90.0, 2.0)]
    (said,) = conclusions({"main": {"rows": rows}})
    assert said.startswith("toy: Archer solves ")
    assert told in said
    assert "1.60 times as fast as LLaDA-Confidence (95 %: 1.50 to 1.70), Saber 1.30 times" in said
    assert said.endswith("Faster, with a score at least as high: Dkv-decode.")


def test_faster_is_said_only_where_intervals_are_apart() -> None:
    rows = [
        row("saber", 76.0, 1.3),
        row("archer", 72.0, 1.6),
        row("near", 74.0, 1.75),
        row("far", 74.0, 1.81),
        row("worse", 60.0, 9.0),
    ]
    (said,) = conclusions({"main": {"rows": rows}})
    assert "Faster, with a score at least as high: Far. About as fast" in said
    assert said.endswith("About as fast, with a score at least as high: Near.")


def test_without_the_study_nothing_is_said() -> None:
    assert conclusions({}) == []
    assert conclusions({"main": {"rows": [row("saber", 1.0, 1.0)]}}) == [""]
