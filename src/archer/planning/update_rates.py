"""How many updates a response takes and how many of them are full passes: by method, from committed results.

Counts of the bundled model come from `docs/results`, by `make docs`.
Updates of LLaDA-8B are those that the paper reports for MBPP, with a response of 256 tokens; it reports no
refreshes, so their share is that of the bundled model at the same radius.
"""

from dataclasses import dataclass, replace

from archer.costs.workload import Workload, even
from archer.errors import BadRequest
from archer.files import bundled_json

FILE = "update_rates.json"
LENGTH = 64
"""Tokens of a response of the bundled model."""
PAPER_LENGTH = 256
PAPER_UPDATES = {
    "llada-8b": {
        "saber": 146.98,
        "archer": 147.51,
        "no-rollback": 65.97,
        "no-rollback+archer": 65.97,
    }
}
"""Mean updates on MBPP, the paper's table of rollback activity; a cache does not change them much."""
NEVER = float("inf")


@dataclass(frozen=True)
class UpdateRate:
    """Work of a response, relative to its size."""

    updates: float
    """Per token of the response."""
    refreshed: float
    """Fraction of the updates with a full pass; the first one always has one."""
    spare: int = 0
    """Columns behind the answer, of a canvas that follows it; the length is then that of the answer."""

    def trajectory(self, prompt: int, length: int, extra: int = 0) -> Workload:
        updates = max(1, round(self.updates * length))
        full = min(updates, max(1, round(self.refreshed * updates)))
        return even(prompt, length + self.spare, updates, full, extra)


def update_rate(method: str, radius: float | None = None, shape: str | None = None) -> UpdateRate:
    """Of a method of the table, at a radius where it has one, on a shape of which the paper tells updates."""
    known = bundled_json("archer.planning", FILE)
    if method not in known["methods"]:
        raise BadRequest(
            f"How many updates {method!r} takes is not known here. Known: "
            f"{', '.join(known['methods'])}. Say it yourself: updates 0.58, refreshed 0.18"
        )
    row = known["methods"][method]
    rate = UpdateRate(
        row["updates"] / row.get("answer", LENGTH), row["refreshed"], row.get("spare", 0)
    )
    paper = PAPER_UPDATES.get(shape or "", {}).get(method)
    if paper is not None:
        rate = replace(rate, updates=paper / PAPER_LENGTH)
    if radius is None:
        return rate
    if row["radius"] is None:
        raise BadRequest(
            f"{method} has no radius; the methods with one are archer and no-rollback+archer."
        )
    usual = refreshed(known["methods"]["archer"]["radius"])
    return replace(rate, refreshed=min(1.0, rate.refreshed / usual * refreshed(radius)))


def counted_on(method: str, shape: str | None = None) -> str:
    """Whose counts a plan takes."""
    if method in PAPER_UPDATES.get(shape or "", {}):
        return (
            "updates as the paper reports them for LLaDA-8B on MBPP, full ones as counted on the "
            "bundled model"
        )
    return "as counted on the bundled model, which says little about another one"


def refreshed(radius: float) -> float:
    """Fraction of Saber's updates with a full pass, as 1 / radius between measured radii; 0 at inf."""
    shares: dict[float, float] = {
        float(name): share
        for name, share in bundled_json("archer.planning", FILE)["refreshed"].items()
    }
    shares[NEVER] = 0.0
    if not radius >= 1:
        raise BadRequest(f"A radius is a number, at least 1, or inf, not {radius}.")
    if radius in shares:
        return shares[radius]
    below = max(known for known in shares if known <= radius)
    above = min(known for known in shares if known >= radius)
    weight = (1 / below - 1 / radius) / (1 / below - (0.0 if above == NEVER else 1 / above))
    return shares[below] + weight * (shares[above] - shares[below])
