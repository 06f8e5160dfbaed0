"""The published extraction as it was published: regular expressions, quadratic on hostile texts."""

import re
import textwrap


def mbpp_published(response: str, name: str) -> str:
    text = f"```python\n{response}"
    pattern = rf"(def\s+{name}\s*\(.*?\):\n.*?)(?=^```)"
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    return found.group(1).rstrip() if found else textwrap.indent(text, " " * 4)


def humaneval_published(response: str, prompt: str, name: str) -> str:
    text = f"```python\n{prompt}\n{response}"
    found = re.search(rf"def\s+{name}.*?:\n(.*?)\n```", text, re.DOTALL)
    body = found.group(1) if found else response.split("```", 1)[0]
    return prompt + body.rstrip()


def livecodebench_published(response: str) -> str:
    found = re.search(r"```python\s*(.*?)\s*```", response, re.DOTALL)
    return (found.group(1) if found else response).strip()


def tagged(response: str) -> str:
    found = re.search(r"<answer>(.*?)</answer>", response, re.DOTALL)
    return found.group(1).strip() if found else response


def last_box(text: str) -> str | None:
    starts = [found.end() for found in re.finditer(r"\\(?:boxed|fbox)\s*\{", text)][-20:]
    contents = (balanced(text, start) for start in reversed(starts))
    return next((content for content in contents if content is not None), None)


def balanced(text: str, start: int) -> str | None:
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return None


def is_quotient(text: str) -> bool:
    found = re.fullmatch(r"(-?\d+)/(-?\d+)", text)
    return bool(found) and all(str(int(part)) == part for part in found.groups())  # type: ignore[union-attr]
