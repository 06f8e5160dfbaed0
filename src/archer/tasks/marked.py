r"""Finding a marked answer in a response: \boxed{...}, <answer>...</answer>, "the answer is ...".

Used by the repaired extraction of all answer tasks. Pure functions of text.
"""

from __future__ import annotations

import re

BOXES = 20
"""How many boxes are looked at from the end; bounds the time that open ones can cost."""
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
TAG = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
SENTENCE = re.compile(r"\banswer\s*(?:is\b\s*:?|:|=)[ \t*]*([^\n]+)", re.IGNORECASE)


def marked_answer(response: str) -> str | None:
    """The last complete box, else the last tag, else what follows the last "answer is" or "answer:"."""
    boxed = last_box(response)
    if boxed is not None:
        return boxed.strip()
    tags: list[str] = [text.strip() for text in TAG.findall(response)]
    if tags and tags[-1]:
        return tags[-1]
    sentences: list[str] = SENTENCE.findall(response)
    return sentences[-1].strip() if sentences else None


def last_box(text: str) -> str | None:
    r"""What the last \boxed{...} or \fbox{...} with balanced braces holds."""
    starts = [found.end() for found in BOX.finditer(text)][-BOXES:]
    contents = (_balanced(text, start) for start in reversed(starts))
    return next((content for content in contents if content is not None), None)


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return None
