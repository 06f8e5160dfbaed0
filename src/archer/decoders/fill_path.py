"""What decides where a decoder fills masks, which tells whether a text has a probability under it."""

from enum import StrEnum


class FillPath(StrEnum):
    """What decides where a rule that takes nothing back fills masks next, beside the logits."""

    BY_STATE = "nothing"
    """A text is then written along one path alone, and has a probability that can be computed."""
    BY_TOKEN = "the token that is drawn there"
    BY_CHANCE = "chance"


def path_of(decoder: object) -> FillPath:
    """What the rule says of itself in `path`, because nobody else can know it; else what is usual."""
    path = getattr(decoder, "path", FillPath.BY_TOKEN)
    return path if isinstance(path, FillPath) else FillPath.BY_TOKEN
