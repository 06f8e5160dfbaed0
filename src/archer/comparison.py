"""Methods side by side on the same prompts: texts, cost, and where they part; a small table for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Unpack

from archer.errors import BadRequest, one_line
from archer.methods import DEFAULT_METHOD
from archer.model import Model, load
from archer.request.request import listed
from archer.results.trace import first_difference

if TYPE_CHECKING:
    from archer.methods.build import MethodLike
    from archer.request.options import StreamOptions
    from archer.request.request import Prompts
    from archer.results.completion import Completion

USUAL = (DEFAULT_METHOD, "saber", "llada-confidence")
SHOWN = 60
"""Characters of a text in a terminal."""
HEAD = ("prompt", "method", "text", "updates", "full", "cached", "seconds", "parts at")


@dataclass(frozen=True, repr=False)
class SideBySide:
    """What each method made of each prompt; a notebook shows it as a table."""

    methods: Sequence[str]
    completions: Sequence[Sequence[Completion]]
    """A list per method, with a completion per prompt."""

    def parts_at(self, method: int, prompt: int) -> int | None:
        """The first token at which a method's answer differs from the first method's; None if none does."""
        first, other = (self.completions[at][prompt].tokens for at in (0, method))
        return first_difference(first, other)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row for each prompt and method, for `pandas.DataFrame`."""
        return [
            {"prompt": prompt, "parts_at": self.parts_at(at, prompt), **each[prompt].to_dict()}
            for prompt in range(len(self.completions[0]))
            for at, each in enumerate(self.completions)
        ]

    def __repr__(self) -> str:
        rows = [(*row[:2], one_line(row[2])[:SHOWN], *row[3:]) for row in self._rows()]
        widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (HEAD, *rows)
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in HEAD)
        rows = (
            "<tr>"
            + "".join(
                f"<td><pre>{escape(cell)}</pre></td>" if at == 2 else f"<td>{escape(cell)}</td>"
                for at, cell in enumerate(row)
            )
            + "</tr>"
            for row in self._rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for prompt in range(len(self.completions[0])):
            for at, name in enumerate(self.methods):
                each, parting = self.completions[at][prompt], self.parts_at(at, prompt)
                shown = each.error or each.text
                rows.append(
                    (
                        str(prompt + 1),
                        name,
                        " ".join(map(str, each.tokens)) if shown is None else shown,
                        str(each.updates),
                        str(each.full_passes),
                        str(each.cached_passes),
                        f"{each.seconds.total:.2f}",
                        ""
                        if at == 0
                        else "the same"
                        if parting is None
                        else f"token {parting + 1}",
                    )
                )
        return rows


def compare(
    prompts: Prompts,
    methods: Sequence[MethodLike] | Mapping[str, MethodLike] = USUAL,
    *,
    model: Model | str = "pocket",
    **options: Unpack[StreamOptions],
) -> SideBySide:
    """Complete prompts by several methods; `methods` are names or objects, or a mapping from labels to them.

    Prompts are decoded one at a time, each by every method in turn, so that the seconds can be compared.
    """
    if isinstance(methods, str) or not methods:
        raise BadRequest("methods is a list with at least one method, such as ['archer', 'saber'].")
    opened = load(model) if isinstance(model, str) else model
    named = dict(methods) if isinstance(methods, Mapping) else dict(enumerate(methods))
    entries: list[Any] = listed(prompts)
    requests = [
        [opened.request([each], method, **options) for each in entries] for method in named.values()
    ]
    labels = [
        str(key) if isinstance(methods, Mapping) else own[0].method.name
        for key, own in zip(named, requests, strict=True)
    ]
    done: list[list[Completion]] = [[] for _ in named]
    for method in named.values():
        opened.generate([entries[0]], method, **options)
    for each in entries:
        for row, method in zip(done, named.values(), strict=True):
            row.extend(opened.generate([each], method, **options))
    return SideBySide(labels, done)
