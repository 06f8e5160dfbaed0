"""What goes into a page, made safe for it: text, data, and the styles and scripts of the package."""

import html
import json
import re
from importlib.resources import files
from typing import Any

from archer.errors import printable

_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""Characters that could end a script element or a line of a script; JSON can write them otherwise."""


def text(value: object) -> str:
    """As the content of an element or of a quoted attribute, where it steers no browser and no terminal."""
    return html.escape(printable(str(value)), quote=True)


def prose(value: str) -> str:
    """As the content of an element, with what stands between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def data(value: Any) -> str:
    """As the content of a script element that holds JSON."""
    spelled = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return spelled.translate(_UNSAFE)


def asset(name: str) -> str:
    """A file that is shipped with this package."""
    return files("archer.pages").joinpath("assets", name).read_text(encoding="utf-8")
