"""Measured objects become tables; what is counted is told as it was counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from archer.bench import report
from archer.bench.batch import batch
from archer.bench.decode import decode
from archer.bench.load import Loaded
from archer.bench.step import PAPER, measure
from archer.machine.description import describe_torch
from archer.methods.build import build
from support.subjects import tiny

FACTS = {
    "shape": "tiny",
    "layers": 3,
    "response": 8,
    "machine": describe_torch(torch.device("cpu"), torch.float32),
}


def test_steps_become_tables() -> None:
    rows = [row.as_dict() for row in measure(tiny(), [4, 8], 8, repeats=1, library=True)]
    found: dict[str, Any] = FACTS | {"rows": rows}
    for table in (report.steps(found), report.depths(found), report.libraries(found)):
        assert [row[0] for row in table] == ["P", "4", "8"]
        assert len({len(row) for row in table}) == 1
    assert report.steps(found)[1][5] == f"{rows[0]['limit']:.2f}"
    assert report.depths(found)[1][-1] == ""
    found["rows"] = [row | {"whole": None, "library": None} for row in rows]
    assert len(report.depths(found)) == len(report.libraries(found)) == 1


def test_a_gain_over_the_library_stands_beside_what_was_not_computed() -> None:
    """By hand, in multiplications: 2 layers of LLaDA-8B, P = G = 64."""
    times = dict.fromkeys(("ours_ms", "all_ms", "response_ms", "gain_all", "gain_response"), 1.0)
    found = {"shape": "llada-8b", "layers": 2, "response": 64}
    found |= {"rows": [{"prompt": 64, "library": times}]}
    keys, rest, scores = 2 * 4096**2, 2 * 4096**2 + 3 * 4096 * 12288 + 2 * 4096 * 128, 4096 * 126464
    layer = 128 * (keys + rest)
    ours = layer + 128 * keys + 64 * rest + 64 * scores
    row = report.libraries(found)[1]
    assert row[4] == f"{(2 * layer + 128 * scores) / ours:.2f}"
    assert row[7] == f"{(2 * layer + 64 * scores) / ours:.2f}"
    assert report.libraries(found | {"shape": "mine"})[1][4] == ""


def test_a_fraction_of_the_limit_has_an_interval_and_a_word_on_noise() -> None:
    low, high = report.fraction_interval(0.9, {"full": 0.2, "cached": 0.1})
    assert low == pytest.approx(0.9 * 0.9 / 1.05)
    assert high == pytest.approx(0.9 * 1.1 / 0.95)
    assert report.fraction_interval(0.9, {"full": 0.0, "cached": 0.0}) == (0.9, 0.9)
    assert report.noise([0.9, 1.0]) == ""
    assert "above 1 (here up to 1.18)" in report.noise([0.9, 1.18, 1.02])


def test_the_paper_stands_beside_the_whole_depth() -> None:
    (row,) = [each.as_dict() for each in measure(tiny(), [4], 8, repeats=1)]
    row["whole"]["paper"] = 2.07
    assert report.depths({"rows": [row]})[1][-1] == "2.07"


def test_trajectories_become_a_table() -> None:
    methods = [build(name, {"length": 8}) for name in ("saber", "archer")]
    rows = [row.as_dict() for row in decode(tiny(), methods, 4, prompts=1, repeats=1)]
    table = report.trajectories({"rows": rows})
    assert [row[0] for row in table] == ["method", "`saber`", "`archer`"]
    assert table[0][7:] == ["over saber", "predicted", "error"]
    assert table[1][7:] == ["1.00", "1.00", "+0.0 %"]


def test_batches_become_a_table() -> None:
    rows = batch(tiny(), build("archer", {"length": 8}), (1, 2), 4, repeats=1)
    table = report.batches({"rows": [row.as_dict() for row in rows]})
    assert [row[0] for row in table] == ["rows", "1", "2"]
    assert table[1][4] == "1.00"


def test_a_load_becomes_a_table() -> None:
    mebi = 1 << 20
    found = Loaded("m", 2.0, 100 * mebi, 10 * mebi, 120 * mebi, 120 * mebi, 0, 0.0, {})
    assert report.loads(found.as_dict())[1] == ["2.0", "100", "10", "120", "1.200", "1.100"]


def test_the_setting_is_one_line() -> None:
    line = report.setting(FACTS | {"prompt": 4, "method": "archer"})
    assert line.startswith("`tiny`, 3 layers, prompt 4, response 8, method archer. ")
    assert "\n" not in line
    assert report.setting({"model": "m", "machine": FACTS["machine"]}).startswith("`m`. ")
    small = {"model": "m", "quantize": "int8", "machine": FACTS["machine"]}
    assert report.setting(small).startswith("`m`, int8. ")


def test_counted_tables_need_no_machine() -> None:
    growth = report.growth()
    assert [row[1] for row in growth[1:]] == [str(prompt) for prompt in PAPER] * 2
    assert [row[5] for row in growth[1:6]] == ["1.45", "1.91", "2.82", "4.64", "8.29"]
    cards = {row[0]: row for row in report.roofline()[1:]}
    assert cards["H100 SXM"][1:4] == ["11.2", "4.6", "bandwidth"]
    assert float(cards["B200"][4]) == pytest.approx(14.0, abs=0.1)
