r"""Finding a marked answer in a response: \boxed{...}, <answer>...</answer>, "the answer is ...".

Used by the repaired extraction of all answer tasks. Pure functions of text.
"""

import re

BOXES = 20
"""How many boxes are looked at from the end."""
BRACE = re.compile(r"[{}]")
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
    r"""What the last \boxed{...} or \fbox{...} with balanced braces holds, of the last few."""
    starts = [match.end() for match in BOX.finditer(text)][-BOXES:]
    if not starts:
        return None
    ends = _matching(text, starts[0] - 1)
    return next((text[at : ends[at]] for at in reversed(starts) if at in ends), None)


def _matching(text: str, first: int) -> dict[int, int]:
    """Where each pair of braces from a place on begins and ends, inside the braces."""
    opened: list[int] = []
    ends: dict[int, int] = {}
    for brace in BRACE.finditer(text, first):
        if brace[0] == "{":
            opened.append(brace.end())
        elif opened:
            ends[opened.pop()] = brace.start()
    return ends
