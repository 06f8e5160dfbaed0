"""How the selected and mapped elements become the answer.

Templates: `{g}` is a generator expression without brackets, `{l}` the name of a list, `{m}` an iterator
made by map and filter, `{e}` an element, `{acc}` the accumulator, `{c}` a constant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    """One way to end a pipeline, in each of the program forms."""

    key: str
    phrases: tuple[str, ...]
    """What follows "return"; `{them}` names the elements."""
    inline: tuple[str, ...]
    named: str
    """The same from a list that has a name."""
    lazy: str
    """The same from an iterator."""
    kinds: tuple[str, ...] = ("int", "str", "pair")
    """Kinds of element it accepts."""
    loop: tuple[str, str] | None = None
    """Start value and update of an accumulator loop; None: collect a list, then use `named`."""
    constants: tuple[str, ...] = ()
    mapped: bool | None = None
    """True: only behind a mapping; False: only without one; None: either."""


TABLE = Reduction(
    "table",
    ("a dictionary from {key} to result",),
    ("{{{g}}}",),
    "dict({l})",
    "",
    loop=("{}", "{acc}[{key}] = {e}"),
    mapped=True,
)

REDUCTIONS = (
    Reduction("list", ("the list of {them}", "a list of {them}"), ("[{g}]",), "{l}", "list({m})"),
    Reduction(
        "sum",
        ("the sum of {them}", "the total of {them}"),
        ("sum({g})", "sum([{g}])"),
        "sum({l})",
        "sum({m})",
        kinds=("int",),
        loop=("0", "{acc} += {e}"),
    ),
    Reduction(
        "count",
        ("the number of {them}", "the count of {them}"),
        ("len([{g}])",),
        "len({l})",
        "len(list({m}))",
        loop=("0", "{acc} += 1"),
        mapped=False,
    ),
    Reduction(
        "max",
        ("the largest of {them} or 0", "the maximum of {them} or 0"),
        ("max([{g}], default=0)",),
        "max({l}, default=0)",
        "max({m}, default=0)",
        kinds=("int",),
    ),
    Reduction(
        "min",
        ("the smallest of {them} or 0", "the minimum of {them} or 0"),
        ("min([{g}], default=0)",),
        "min({l}, default=0)",
        "min({m}, default=0)",
        kinds=("int",),
    ),
    Reduction(
        "sorted",
        ("{them} in sorted order", "the sorted list of {them}"),
        ("sorted({g})", "sorted([{g}])"),
        "sorted({l})",
        "sorted({m})",
    ),
    Reduction(
        "descending",
        ("{them} in descending order",),
        ("sorted([{g}], reverse=True)",),
        "sorted({l}, reverse=True)",
        "sorted({m}, reverse=True)",
    ),
    Reduction(
        "unique",
        ("the sorted distinct values of {them}", "{them} sorted without repeats"),
        ("sorted(set({g}))", "sorted({{{g}}})"),
        "sorted(set({l}))",
        "sorted(set({m}))",
    ),
    Reduction(
        "distinct",
        ("the number of distinct values of {them}", "how many distinct values {them} have"),
        ("len(set({g}))", "len({{{g}}})"),
        "len(set({l}))",
        "len(set({m}))",
    ),
    Reduction(
        "reversed",
        ("{them} in reverse order", "the reversed list of {them}"),
        ("[{g}][::-1]",),
        "{l}[::-1]",
        "list({m})[::-1]",
    ),
    Reduction(
        "head",
        ("the first {c} of {them}",),
        ("[{g}][:{c}]",),
        "{l}[:{c}]",
        "list({m})[:{c}]",
        constants=("count",),
    ),
    Reduction(
        "tail",
        ("the last {c} of {them}",),
        ("[{g}][-{c}:]",),
        "{l}[-{c}:]",
        "list({m})[-{c}:]",
        constants=("count",),
    ),
    Reduction(
        "tuple",
        ("a tuple of {them}",),
        ("tuple({g})", "tuple([{g}])"),
        "tuple({l})",
        "tuple({m})",
    ),
    Reduction(
        "join",
        ("{them} joined by {c}",),
        ("{c}.join({g})", "{c}.join([{g}])"),
        "{c}.join({l})",
        "{c}.join({m})",
        kinds=("str",),
        constants=("letter",),
    ),
    Reduction(
        "longest",
        ("the longest of {them} or ''",),
        ("max([{g}], key=len, default='')",),
        "max({l}, key=len, default='')",
        "max({m}, key=len, default='')",
        kinds=("str",),
    ),
    TABLE,
)
