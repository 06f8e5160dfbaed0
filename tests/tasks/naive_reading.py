"""The published extraction as it was published: regular expressions, quadratic on hostile texts."""

import re
import textwrap
from collections import Counter


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


def gsm8k_published(response: str) -> str:
    for content in re.findall(r"\\boxed{(.*?)}", response):
        inner = content.strip()
        if inner and not re.match(r"^\.+$", inner):
            try:
                return repr(float(inner))
            except ValueError:
                numbers = re.findall(r"-?\d+\.?\d*", inner)
                if numbers:
                    return repr(float(numbers[0]))
    found = re.search(r"<answer>(.*?)</answer>", response, re.DOTALL)
    text = found.group(1).strip() if found else ""
    try:
        return repr(float(text))
    except ValueError:
        numbers = re.findall(r"-?\d+\.?\d*", text)
        return repr(float(numbers[-1])) if numbers else ""


def countdown_published(response: str) -> str:
    from archer.tasks.reading.lineage import lineage_answer

    text = lineage_answer(response)
    found = re.search(r"([0-9+\-*/() ]+)=[0-9. ]+", text)
    return found.group(1).strip() if found else text


def countdown_stepped(query: str, steps: str) -> bool:
    """Numbers as texts in one bag, taken out and put in; a result that is no whole number is none here."""
    *numbers, target = query.split(",")
    bag, right = Counter(numbers), True
    for step in steps.split(","):
        found = re.fullmatch(r"(\d+)([+\-*/])(\d+)=(\d+)", step)
        if not found or str(int(found[1])) != found[1] or str(int(found[3])) != found[3]:
            return False
        a, b = int(found[1]), int(found[3])
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}[found[2]]
        right = right and value == int(found[4])
        bag.subtract([found[1], found[3]])
        bag.update([str(int(found[4]))])
        right = right and min(bag.values()) >= 0
    bag.subtract([target])
    return right and not any(bag.values())


def sudoku_published(response: str) -> str:
    patterns = (
        r"<answer>.*?```\s*([\d\s]+)```",
        r"<answer>(.*?)</answer>",
        r"</answer>\s*(.*?)$",
        r".*?(\d{16})\s*</answer>",
        r"\b(\d{16})\b",
    )
    for pattern in patterns:
        found = re.search(pattern, response, re.DOTALL)
        if found and found.group(1).strip():
            cells = re.sub(r"\s", "", found.group(1).strip())
            return cells[:16].ljust(16, "0")
    return ""
