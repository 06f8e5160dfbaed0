"""The published sets: long prompts to the byte, and damaged files refused."""

import hashlib

import pytest

from archer.errors import BadRequest
from archer.pocket import frozen, prompts

LONG_PROMPTS: dict[frozen.Held, str] = {
    "dev": "5b9a40f7dbdd21a66dfe5395e1fa1b444fb3cf95942c799f43cf17418baa3396",
    "test": "0c40fa233a1c3b04defd7a57da804af8999a873c32149bb6192ae7bab7dbae9d",
    "confirm": "e5855913d76ff0aa245e6eb0957bc2e04f65f6f890c7006dcfaef6ecd7e37d5a",
}
"""sha256 of all long prompts of a set, each with a zero byte behind it; every published run rests on them."""


@pytest.mark.parametrize("split", frozen.SIZES)
def test_long_prompts_are_the_published_ones(split: frozen.Held) -> None:
    digest = hashlib.sha256()
    examples = frozen.load_examples(split)
    for task in frozen.load(split):
        digest.update(prompts.long_message(task, examples[task.name]).encode() + b"\0")
    assert digest.hexdigest() == LONG_PROMPTS[split]


def test_damaged_files_are_refused() -> None:
    with pytest.raises(BadRequest, match="The dev set of pocket is damaged"):
        frozen.parse(b"{}\n", "dev")
    with pytest.raises(
        BadRequest, match="The worked examples of the test set of pocket are damaged"
    ):
        frozen.parse_examples(b"{}\n", "test")
