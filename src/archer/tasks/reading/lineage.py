"""The MATH answer comparison of the paper's lineage, with the habits that published scores depend on."""

import re

DELETED = ("\n", "\\!", "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
UNIT = "\\text{ "
SHORT_ROOT = re.compile(r"\\sqrt(?!\{)(.)")
SHORT_FRACTION = re.compile(r"\\frac(?!\{)(.)(?!\{)(.)|\\frac(?!\{)(.)(?=\{)")
QUOTIENT = re.compile(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)")
"""Of two numbers as Python would write them, of any length."""


def lineage_answer(response: str) -> str:
    r"""The last \boxed answer; else what <answer> holds; else the whole response, which never fits."""
    start = response.rfind("\\boxed")
    if start < 0:
        start = response.rfind("\\fbox")
    if start < 0:
        return _tagged(response)
    if response.startswith("\\boxed ", start):
        return response[start + len("\\boxed ") :].split("$")[0]
    return _braced(response, response.find("{", start))


def _tagged(response: str) -> str:
    """What stands in the first <answer>; once a regular expression that tried every one of them."""
    start = response.find("<answer>") + len("<answer>")
    end = response.find("</answer>", start) if start >= len("<answer>") else -1
    return response[start:end].strip() if end >= 0 else response


def _braced(text: str, opening: int) -> str:
    """What a pair of braces holds; nothing if it is not closed."""
    if opening < 0:
        return ""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[opening + 1 : at]
    return ""


def same_in_lineage(answer: str, right: str) -> bool:
    """Whether two answers are equal once both are normalised."""
    normal = normalised(answer), normalised(right)
    return answer == right if None in normal else normal[0] == normal[1]


def normalised(text: str) -> str | None:
    """The normal form; None where the lineage gives up."""
    for deleted in DELETED[:2]:
        text = text.replace(deleted, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for deleted in DELETED[2:]:
        text = text.replace(deleted, "")
    text, *units = text.split(UNIT)
    if len(units) > 1:
        return None
    text = text.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    text = f"0{text}" if text.startswith(".") else text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        text = value
    return _arithmetic(text)


def _arithmetic(text: str) -> str:
    text = SHORT_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")
    text = SHORT_FRACTION.sub(_full_fraction, text)
    if text == "0.5":
        return "\\frac{1}{2}"
    quotient = QUOTIENT.fullmatch(text)
    if quotient:
        return f"\\frac{{{quotient[1]}}}{{{quotient[2]}}}"
    return text


def _full_fraction(match: re.Match[str]) -> str:
    if match[3] is not None:
        return f"\\frac{{{match[3]}}}"
    return f"\\frac{{{match[1]}}}{{{match[2]}}}"
