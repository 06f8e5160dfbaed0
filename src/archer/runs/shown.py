"""A summary in a few lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from archer.runs.records import Summary


def lines(summary: Summary) -> Iterator[str]:
    """The task and method, every score with its interval, and what it cost."""
    yield f"{summary.task} by {summary.method}: {summary.n} problems"
    if not summary.complete:
        yield (
            f"  incomplete: {summary.completed} completed, {summary.graded} graded; no score yet"
        )
    for name, score in summary.scores.items():
        if score.value is not None and score.interval is not None:
            low, high = score.interval
            yield (
                f"  {name:<18} {score.value:.1%}  (95 %: {low:.1%} to {high:.1%}; "
                f"as published {score.as_published:.1%})"
            )
    each = summary.per_problem
    if each["updates"] is None:
        return
    yield (
        f"  per problem        {each['seconds']:.3f} s, {each['updates']:.1f} updates: "
        f"{each['full_passes']:.1f} full, {each['cached_passes']:.1f} cached"
    )
    if summary.refresh_fraction is not None:
        yield f"  refresh fraction   {summary.refresh_fraction:.3f}"
