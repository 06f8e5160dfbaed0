"""Every field of every request, at values that nobody means, and requests that are hostile otherwise."""

from collections.abc import Iterator, Mapping
from typing import Any

from archer.server.infill import CUTS, HINTS, InfillFields
from archer.server.infill import NEUTRAL as NEUTRAL_IN_INFILL
from archer.server.request_schema import (
    NEUTRAL,
    ChatFields,
    ChatMessage,
    Extension,
    NamedSchema,
    ResponseFormat,
    Streaming,
    TextFields,
)
from server.running import CHAT, TEXT
from support.extremes import LENGTH, VALUES, cases, sendable

INFILL = "/infill"
PROMPT = "def solve(nums):"
Sent = tuple[str, dict[str, Any]]
"""A path and a body."""
MESSAGE = {"role": "user", "content": PROMPT}
SOUND: Mapping[str, tuple[dict[str, Any], set[str]]] = {
    CHAT: (
        {"model": "pocket", "messages": [MESSAGE], "max_tokens": LENGTH},
        {*ChatFields.model_fields, *NEUTRAL},
    ),
    TEXT: (
        {"model": "pocket", "prompt": PROMPT, "max_tokens": LENGTH},
        {*TextFields.model_fields, *NEUTRAL},
    ),
    INFILL: (
        {"input_prefix": PROMPT, "input_suffix": "\n", "n_predict": LENGTH},
        {*InfillFields.model_fields, *HINTS, *CUTS, *NEUTRAL_IN_INFILL},
    ),
}


def fields() -> list[Sent]:
    """Each field of each route by itself, those of inner objects as well."""
    return [sent for value in filter(sendable, VALUES) for sent in _with(value)]


def _with(value: Any) -> Iterator[Sent]:
    for path, (sound, names) in SOUND.items():
        for name in sorted(names):
            yield path, sound | {name: value}
        for name in Extension.model_fields:
            yield path, sound | {"archer": {name: value}}
        yield path, sound | {"temperature": 1.0, "top_p": value}
        yield path, sound | {"top_p": 1, "archer": {"settings": {"nonsense": value}}}
    text, _ = SOUND[TEXT]
    gaps = {"prompt": "a = @\nb = @\n"}
    for length in (value, [value], [value, 1]):
        yield TEXT, text | gaps | {"archer": {"gap": "@", "settings": {"length": length}}}
        del_length = {"model": "pocket", **gaps}
        yield TEXT, del_length | {"archer": {"gap": "@", "settings": {"max_length": length}}}
    chat, _ = SOUND[CHAT]
    for name in ChatMessage.model_fields:
        yield CHAT, chat | {"messages": [MESSAGE | {name: value}]}
    for name in Streaming.model_fields:
        yield CHAT, chat | {"stream": True, "stream_options": {name: value}}
    for name in ResponseFormat.model_fields:
        yield CHAT, chat | {"response_format": {"type": "json_schema", name: value}}
    for name in NamedSchema.model_fields:
        inner = {"name": "n", "schema": {"type": "integer"}, name.rstrip("_"): value}
        yield CHAT, chat | {"response_format": {"type": "json_schema", "json_schema": inner}}
    for keyword in ("minimum", "maxLength", "maxItems", "minProperties", "multipleOf", "enum"):
        yield CHAT, chat | {"guided_json": {keyword: value}}


def settings() -> list[Sent]:
    """Each setting of each method."""
    sent = []
    for method, setting, value in cases():
        own = {"method": method, "settings": {setting: value}}
        length = (
            {} if setting in ("length", "max_length", "max_new_tokens") else {"max_tokens": LENGTH}
        )
        if sendable(value):
            sent.append((TEXT, {"model": "pocket", "prompt": PROMPT, "archer": own} | length))
    return sent


def everything() -> list[Sent]:
    return [*settings(), *fields()]
