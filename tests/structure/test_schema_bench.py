"""JSONSchemaBench's sample: instances are judged as they are marked, and schemas are read in good time."""

import json

import pytest

from archer.structure.keywords import NOT_ENFORCED
from structure.schema_bench import SECONDS, examined, rows

PARTS = 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_instances_are_judged_as_they_are_marked(part: int) -> None:
    chosen = {row["name"]: row for row in rows()[part::PARTS]}
    for found in examined(chosen.values()):
        text = json.dumps(chosen[found.name]["schema"])
        assert found.lost == 0, found
        assert found.let_through == 0 or any(f'"{name}"' in text for name in NOT_ENFORCED), found
        assert found.refused is not None or found.seconds < 4 * SECONDS, found
