"""A summary in a few lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """The task and method, every score with its interval, and what it cost."""
    yield f"{summary['task']} by {summary['method']}: {summary['n']} problems"
    if not summary["complete"]:
        yield (
            f"  incomplete: {summary['completed']} completed, {summary['graded']} graded; no score yet"
        )
    for name in (key.removesuffix("_interval") for key in summary if key.endswith("_interval")):
        if summary[name] is not None:
            low, high = summary[f"{name}_interval"]
            published = summary[f"{name}_as_published"]
            yield (
                f"  {name:<18} {summary[name]:.1%}  (95 %: {low:.1%} to {high:.1%}; "
                f"as published {published:.1%})"
            )
    each = summary["per_problem"]
    if each["updates"] is None:
        return
    yield (
        f"  per problem        {each['seconds']:.3f} s, {each['updates']:.1f} updates: "
        f"{each['full_passes']:.1f} full, {each['cached_passes']:.1f} cached"
    )
    yield f"  refresh fraction   {summary['refresh_fraction']:.3f}"
