"""The confined processes in which graders look at what models wrote."""

from pathlib import Path

from archer.judge.checks import Tier
from archer.judge.reader import Readers, Reading
from archer.tasks import reading

MODULES = (
    *("programs", "marked", "numbers", "lineage"),
    *("code", "answers", "puzzles", "operations"),
)
"""Of `archer.tasks.reading`, in the order in which they need each other."""


def sources() -> dict[str, str]:
    """The modules that a confined process is sent."""
    folder = Path(reading.__file__).parent
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}


def open_readers(count: int = 1, tier: Tier | None = None) -> Readers:
    """Readers of texts, `count` at a time; in the strongest tier that works if none is given."""
    return Readers(Reading(modules=sources()), count, tier)
