"""From arguments, files and id lists to the rows of a request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from archer.cli.options import PromptOptions
from archer.errors import BadRequest, reason_of

Entry = str | list[int] | list[dict[str, str]]


def gather(texts: Sequence[str], options: PromptOptions) -> list[Entry]:
    """One entry per row: arguments first, then the file, the chat, and the id lists."""
    entries: list[Entry] = [_text(text) for text in texts]
    if options.prompt_file is not None:
        entries.append(_text(_read(options.prompt_file)))
    if options.messages is not None:
        entries.append(_chat(options.messages))
    entries.extend(_ids(ids) for ids in options.prompt_ids)
    if not entries:
        raise BadRequest(
            "There is no prompt. Give a text, - for stdin, --prompt-file FILE, --messages FILE, or "
            "--prompt-ids 5,7,9."
        )
    return entries


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequest("The prompt is not UTF-8 text.") from error
    if not text.strip():
        raise BadRequest("The prompt is empty. Write what the model should answer.")
    return text


def _read(path: Path) -> str:
    """The file without the line break that editors put at its end."""
    standard = str(path) == "-"
    name = "stdin" if standard else repr(str(path))
    try:
        content = sys.stdin.buffer.read() if standard else path.read_bytes()
    except OSError as error:
        raise BadRequest(f"The file {name} cannot be read: {reason_of(error)}.") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"The prompt in {name} is not UTF-8: byte {error.start} cannot be read. "
            "Convert the file to UTF-8."
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


def _chat(path: Path) -> list[dict[str, str]]:
    """The messages in a JSON file, the last of them to be answered."""
    wrong = (
        f"The chat in {path} must be a JSON list of messages, each with a role and a content, both text: "
        '[{"role": "user", "content": "Hello."}]'
    )
    content = _read(path)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{wrong}. It is not JSON ({error}).") from error
    if not isinstance(found, list) or not found:
        raise BadRequest(f"{wrong}.")
    for place, message in enumerate(found, start=1):
        match message:
            case {"role": str(), "content": str(), **rest} if not rest:
                continue
            case _:
                raise BadRequest(f"{wrong}. Message {place} is not one.")
    _text("".join(message["content"] for message in found))
    return found


def _ids(spelled: str) -> list[int]:
    parts = [part.strip() for part in spelled.split(",")]
    if parts == [""]:
        raise BadRequest("The prompt is empty. Give at least one id, as in --prompt-ids 5,7,9.")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise BadRequest(
            f"--prompt-ids takes whole numbers with commas between them, as in 5,7,9, not {spelled!r}."
        )
    return [int(part) for part in parts]
