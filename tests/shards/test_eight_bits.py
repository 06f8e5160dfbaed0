"""Eight-bit weights over shards: a row's scale is that of the whole row, so the numbers are the same."""

from pathlib import Path

import pytest

from shards.pairs_of_models import FOLDERS, PROMPT, twice, walked


@pytest.mark.parametrize("family", ["llada", "llada2"])
def test_int8_is_the_same_over_shards(tmp_path: Path, family: str) -> None:
    with twice(FOLDERS[family](tmp_path / "model"), quantize="int8") as two:
        for name in ("confidence", "saber+archer"):
            try:
                method = two.whole.request([list(PROMPT)], name, length=8).method
            except ValueError:
                continue
            assert walked(two.shared, method) == walked(two.whole, method)
