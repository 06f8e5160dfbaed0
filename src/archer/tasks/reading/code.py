"""Finding the program in a response, as published and repaired, by searches that look at a text once."""

import ast
import re
import textwrap

from .programs import first_good, functions, implements, parsed, segments

FENCE = "```"
PYTHON_FENCE = "```python"


def mbpp_published(response: str, name: str) -> str:
    """From the function's header to a fence. Without one all is indented, so nothing runs.

    Once `(def\\s+NAME\\s*\\(.*?\\):\\n.*?)(?=^```)`.
    """
    text = f"{PYTHON_FENCE}\n{response}"
    header = re.search(rf"def\s+{name}\s*\(", text)
    signature = text.find("):\n", header.end()) if header else -1
    fence = text.find(f"\n{FENCE}", signature + 2) if signature >= 0 else -1
    if header is None or fence < 0:
        return textwrap.indent(text, " " * 4)
    return text[header.start() : fence + 1].rstrip()


def mbpp_repaired(response: str, name: str) -> str:
    """The response up to the first fence, else a later block that has the function."""
    candidates = segments(response)
    chosen = first_good(candidates, lambda program: implements(program, name))
    return candidates[0] if chosen is None else chosen


def humaneval_published(response: str, prompt: str, name: str) -> str:
    """What follows the first header up to a fence, behind the whole prompt again.

    Once `def\\s+NAME.*?:\\n(.*?)\\n```.
    """
    text = f"{PYTHON_FENCE}\n{prompt}\n{response}"
    header = re.search(rf"def\s+{name}", text)
    colon = text.find(":\n", header.end()) if header else -1
    fence = text.find(f"\n{FENCE}", colon + 2) if colon >= 0 else -1
    body = text[colon + 2 : fence] if fence >= 0 else response.split(FENCE, 1)[0]
    return prompt + body.rstrip()


def humaneval_repaired(response: str, prompt: str, name: str) -> str:
    """The response as a continuation of the prompt, else a later block that has the function."""
    first, *later = segments(response)
    head = prompt[: prompt.rindex(f"def {name}")]
    candidates = [
        f"{prompt}\n{first}",
        *(f"{head}{block}" for block in later),
        f"{prompt}\n    {first.lstrip()}",
        f"{prompt}\n{textwrap.indent(first, '    ')}",
    ]
    chosen = first_good(candidates, lambda program: implements(program, name))
    return candidates[0] if chosen is None else chosen


def last_function(program: str, otherwise: str) -> str:
    """The last function at top level that is not called main: the one that a release tests."""
    tree = parsed(program)
    names = [node.name for node in functions(tree) if node.name != "main"] if tree else []
    return names[-1] if names else otherwise


def livecodebench_published(response: str) -> str:
    """The first closed block of Python, else all of the response.

    Once "```python\\s*(.*?)\\s*```".
    """
    opening = response.find(PYTHON_FENCE)
    start = opening + len(PYTHON_FENCE)
    closing = response.find(FENCE, start) if opening >= 0 else -1
    return (response[start:closing] if closing >= 0 else response).strip()


def livecodebench_repaired(response: str, function: str | None) -> str:
    """The last fenced block that can be the solution, closed or not; else text without fences."""
    parts = segments(response)
    candidates = [*reversed(parts[1::2]), *parts[0::2]]
    chosen = first_good(candidates, lambda program: _solves(program, function))
    return response.strip() if chosen is None else chosen.strip()


def _solves(program: str, function: str | None) -> bool:
    """Whether a text is a program that defines the function, or that does anything at all."""
    tree = parsed(program)
    if tree is None:
        return False
    if function is None:
        return any(isinstance(node, ast.Call) for node in ast.walk(tree))
    return any(
        isinstance(node, ast.FunctionDef) and node.name == function for node in ast.walk(tree)
    )


def pocket_repaired(response: str, header: str, name: str) -> str:
    """The header and what the model wrote, else a block with the whole function."""
    continued = f"{header}{response.rstrip()}\n"
    candidates = [continued, *segments(response)]
    return first_good(candidates, lambda text: implements(text, name)) or continued
