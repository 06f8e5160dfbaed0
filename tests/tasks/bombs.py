"""Texts made to hurt whoever reads them: small to send, without end or measure to look at."""

from typing import Any

READ = "read"
FENCE = "```"
ENDLESS = "100 blocks of nested try and finally, 20 levels each"
"""One such block uses up the memory of a reader, which takes it for no Python, before its time: on a quick
machine within a second.  A hundred of them are tried one after the other, and no machine is that quick."""


def finals(levels: int) -> str:
    """Three exits per level: the compiler writes the last block out once for each way to it."""
    lines = ["def f(x):"]
    for level in range(levels):
        pad = "  " * level
        lines += [f"{pad} try:", f"{pad}  return", f"{pad} finally:"]
    return "\n".join([*lines, f"{'  ' * levels} pass", ""])


def comprehensions(count: int) -> str:
    """A chain that the compiler walks down by recursion."""
    return f"def f(x):\n    return {'[a for a in ' * count}x{']' * count}\n"


def withs(levels: int) -> str:
    lines = ["def f(x):"]
    lines += [f"{'  ' * level} with x: " for level in range(levels)]
    return "\n".join([*lines, f"{'  ' * levels} return 1", ""])


# name: (text, what may come of it)
BOMBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nested try and finally, 11 levels": (finals(11), (READ, "fail", "timeout", "crash")),
    "nested try and finally, 14 levels": (finals(14), (READ, "fail", "timeout", "crash")),
    "nested try and finally, 20 levels": (finals(20), (READ, "fail", "timeout", "crash")),
    ENDLESS: (f"\n{FENCE}\n".join([finals(20)] * 100), ("fail", "timeout", "crash")),
    "chain of 40,000 comprehensions": (
        "def f(x):\n    return " + " + ".join(["[a for a in x]"] * 40_000) + "\n",
        (READ, "fail", "timeout", "crash"),
    ),
    "comprehensions in comprehensions": (comprehensions(60), (READ, "fail", "timeout", "crash")),
    "19 nested withs": (withs(19), (READ, "fail", "timeout", "crash")),
    "100,000 attributes": (f"def f(x):\n    return x{'.a' * 100_000}\n", (READ, "fail", "crash")),
    "200,000 sums": (f"def f(x):\n    return x{'+1' * 200_000}\n", (READ, "fail", "crash")),
    "200,000 minus signs": (f"def f(x):\n    return {'-' * 200_000}x\n", (READ, "fail", "crash")),
    "100,000 nots": (f"def f(x):\n    return {'not ' * 100_000}x\n", (READ, "fail", "crash")),
    "100,000 calls": (f"def f(x):\n    return x{'()' * 100_000}\n", (READ, "fail", "crash")),
    "100,000 elifs": (
        "def f(x):\n    if x: pass\n" + "    elif x: pass\n" * 50_000,
        (READ, "fail", "timeout", "crash"),
    ),
    "100,000 lambdas": (f"f = {'lambda: ' * 100_000}1\n", (READ, "fail", "crash", "timeout")),
    "a power tower": (
        f"def f(x):\n    return {'9**' * 2000}9\n",
        (READ, "fail", "crash", "timeout"),
    ),
    "a string times a billion": ("def f(x):\n    return 'a' * 10**9 * 10**9\n", (READ, "fail")),
    "a shifted one": ("def f(x):\n    return 1 << (1 << 60)\n", (READ, "fail")),
    "a tuple times a tuple": (
        "def f(x):\n    return ((0,) * 256 * 256 * 256, 1)\n",
        (READ, "fail"),
    ),
    "a million digits": (f"def f(x):\n    return {'9' * 1_000_000}\n", (READ, "fail", "timeout")),
    "30,000 fences": ("```\n" * 30_000, (READ, "fail", "timeout")),
    "fences round errors": ("def f(:\n```\n" * 3000, (READ, "fail", "timeout")),
    "an error in each of 5,000 lines": ("def f(x:\n" * 5000, (READ, "fail", "timeout")),
    "f-strings in f-strings": (f"x = {'f' * 1}'{'{' * 200}1{'}' * 200}'\n", (READ, "fail")),
    "escapes that warn": (
        "x = '" + "\\d" * 200_000 + "'\ndef f(x):\n    return 1\n",
        (READ, "fail"),
    ),
    "a zero byte": ("def f(x):\n    return 1\n\0", (READ, "fail")),
    "a lone surrogate": ("def f(x):\n    return '\udc80'\n", (READ, "fail")),
    "100,000 brackets": ("(" * 100_000, (READ, "fail")),
    "deep indentation": (
        "def f(x):\n" + "".join(f"{' ' * (n + 1)}if x:\n" for n in range(150)),
        (READ, "fail"),
    ),
}

FLAT = {
    name: BOMBS[name]
    for name in (
        "chain of 40,000 comprehensions",
        "200,000 minus signs",
        "a lone surrogate",
    )
}
"""A few for whole graders."""

LONG = 300_000


def _filled(unit: str) -> str:
    return unit * (LONG // len(unit))


# name: (operation, text, facts); each was quadratic or worse as published, or could have been
SLOW_TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mbpp: headers without an end": ("mbpp_published", _filled("def f("), {"name": "f"}),
    "mbpp: headers without a fence": ("mbpp_published", _filled("def f():\n"), {"name": "f"}),
    "mbpp: ends of signatures": ("mbpp_published", "def f(" + _filled("):\n"), {"name": "f"}),
    "mbpp: defs and spaces": ("mbpp_published", _filled("def" + " " * 997), {"name": "f"}),
    "humaneval: headers": (
        "humaneval_published",
        _filled("def f"),
        {"prompt": "def f(x):\n", "name": "f"},
    ),
    "humaneval: colons": (
        "humaneval_published",
        _filled("def f:\n"),
        {"prompt": "def f(x)", "name": "f"},
    ),
    "livecodebench: spaces": ("livecodebench_published", "```python" + _filled(" ") + "x", {}),
    "livecodebench: spaces between words": (
        "livecodebench_published",
        "```python x" + _filled(" " * 999 + "x"),
        {},
    ),
    "math500: open tags": ("lineage_answer", _filled("<answer>"), {}),
    "math500: open boxes": ("math_answer", _filled("\\boxed{"), {}),
    "math500: braces": ("math_answer", "\\boxed{" * 30 + _filled("{"), {}),
    "math500: answers and spaces": ("math_answer", _filled("answer" + " " * 994), {}),
    "math500: answers and line ends": ("math_answer", "answer is" + _filled("\n"), {}),
    "math500: a quotient of long numbers": (
        "same_in_lineage",
        "9" * 150_000 + "/" + "7" * 150_000,
        {"right": "1"},
    ),
    "math500: roots": ("same_in_lineage", _filled("\\sqrt3\\frac12"), {"right": "1"}),
    "finqa: digits": ("finqa_answer", _filled("1"), {"marks": True, "word": False}),
    "finqa: groups of digits": ("finqa_answer", _filled("1,111"), {"marks": True, "word": False}),
    "finqa: fractions": ("finqa_answer", _filled("\\frac{1"), {"marks": True, "word": False}),
    "finqa: brackets and spaces": (
        "finqa_answer",
        _filled("(" + " " * 999),
        {"marks": True, "word": False},
    ),
    "finqa: signs": ("finqa_answer", _filled("- "), {"marks": False, "word": False}),
    "finqa: slashes": ("finqa_answer", "1" + _filled(" /"), {"marks": False, "word": False}),
    "pubmedqa: almost": ("pubmedqa_answer", _filled("ye mayb "), {"marks": True}),
}
