"""Where the time goes: kinds of work that add up, from the engine's own steps."""

from dataclasses import asdict, replace

import pytest
import torch

from archer.bench.profiling import KINDS, OTHER, OUTSIDE, shares, table
from archer.errors import BadRequest
from archer.network.network import Transformer
from archer.pages.tables import Value
from support.subjects import tiny


@pytest.mark.parametrize("shift", [False, True])
def test_kinds_of_work_add_up_to_the_step(shift: bool) -> None:
    full, cached = shares(tiny(shift), 16, 8, repeats=2)
    assert (full.step, cached.step) == ("full", "cached")
    for found in (full, cached):
        kinds = found.kinds_ms
        assert set(kinds) <= {*KINDS.values(), OTHER, OUTSIDE}
        assert {"matrix products", "attention", "copies", OUTSIDE} <= set(kinds)
        assert all(spent >= 0 for spent in kinds.values())
        assert list(kinds.values()) == sorted(kinds.values(), reverse=True)
        assert sum(kinds.values()) == pytest.approx(found.total_ms, rel=1e-6)


def test_a_device_that_runs_ahead_is_refused() -> None:
    subject = tiny()
    elsewhere = Transformer(subject.network.shape, device=torch.device("meta"))
    with pytest.raises(
        BadRequest, match=r"not on meta, .* Use the device cpu, or `archer bench step`"
    ):
        shares(replace(subject, network=elsewhere), 16, 8, repeats=1)


def test_they_become_a_table_of_both_steps() -> None:
    rows = [asdict(row) for row in shares(tiny(), 16, 8, repeats=1)]
    rows[1]["kinds_ms"].pop("copies")
    made = table({"rows": rows})
    head = [column.name for column in made.columns]
    assert head == ["work", "full ms", "share (%)", "cached ms", "share (%)"]
    by_kind = {line[0]: list(line[1:]) for line in made.rows}
    assert set(by_kind) == set(rows[0]["kinds_ms"])
    assert by_kind["copies"][2:] == [Value(0.0), 0.0]
    spent, total = rows[0]["kinds_ms"]["attention"], rows[0]["total_ms"]
    assert by_kind["attention"][:2] == [Value(spent), 100 * (spent / total)]
