"""What grading found: a row per completion, and scores over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from archer.judge import Verdict


@dataclass(frozen=True)
class GradedCompletion:
    """The verdicts on one completion. `clean` only where the tests have known faults."""

    id: str | int
    repaired: Verdict
    published: Verdict
    clean: Verdict | None = None

    @property
    def unjudged(self) -> bool:
        """Whether the judge failed on any reading of the completion."""
        verdicts = (self.repaired, self.published, self.clean)
        return any(each is not None and each.outcome == "harness_error" for each in verdicts)

    def as_dict(self) -> dict[str, Any]:
        return {"task_id": self.id, **self.verdicts()}

    def verdicts(self) -> dict[str, Any]:
        plain = {
            "verdict": self.repaired.outcome,
            "reason": self.repaired.reason,
            "seconds": round(self.repaired.seconds, 6),
            "verdict_as_published": self.published.outcome,
            "reason_as_published": self.published.reason,
        }
        return plain if self.clean is None else plain | {"verdict_clean": self.clean.outcome}


@dataclass(frozen=True)
class GradingReport:
    """All rows with their scores, as fractions of the rows given."""

    task: str
    rows: Sequence[GradedCompletion]
    tier: str | None
    """How programs were confined; None for a task that runs none."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        return share(row.repaired for row in self.rows)

    @property
    def score_as_published(self) -> float | None:
        return share(row.published for row in self.rows)

    @property
    def unjudged(self) -> int:
        """Rows on which the judge failed."""
        return sum(row.unjudged for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "n": len(self.rows),
            "score": self.score,
            "score_as_published": self.score_as_published,
            "rows": [row.as_dict() for row in self.rows],
            "tier": self.tier,
            "details": self.details,
        }


def share(verdicts: Iterable[Verdict | None]) -> float | None:
    """The fraction that passed; None without verdicts, or if the judge failed on one."""
    outcomes = [each.outcome for each in verdicts if each is not None]
    if not outcomes or "harness_error" in outcomes:
        return None
    return outcomes.count("pass") / len(outcomes)
