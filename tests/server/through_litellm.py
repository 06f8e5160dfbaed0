"""What litellm must see; a program, run in an environment without Archer: `through_litellm.py URL TEXT`."""

import sys
from importlib.metadata import version
from typing import Any

import litellm  # type: ignore[import-not-found]
from contract import LENGTH, MESSAGES, PROVISIONAL  # type: ignore[import-not-found]


def check(url: str, expected: str) -> None:
    """A plain reply and streams of both modes have the same text."""
    asked: dict[str, Any] = {
        "model": "openai/pocket",
        "messages": MESSAGES,
        "max_tokens": LENGTH,
        "api_base": url,
        "api_key": "none",
    }
    assert litellm.completion(**asked).choices[0].message.content == expected
    modes: list[dict[str, Any]] = [{}, PROVISIONAL]
    for extra in modes:
        chunks = litellm.completion(**asked, stream=True, extra_body=extra)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected


if __name__ == "__main__":
    check(*sys.argv[1:])
    sys.stdout.write(version("litellm"))
