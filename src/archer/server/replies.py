"""Replies and stream chunks as OpenAI's clients read them, for chats and for plain completions."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from archer.model import Model
from archer.results.completion import Completion

NEVER = -9999.0
"""OpenAI's number for the logarithm of a probability of 0."""


@dataclass(frozen=True)
class Reply:
    """What all objects of one reply have in common."""

    id: str
    created: int
    model: str
    chat: bool
    tokens: bool
    """Whether choices say what is known of each token."""
    states: bool
    """Whether they say what stood there before each update."""
    served: Model
    done: ClassVar[str] = "data: [DONE]\n\n"
    """The last line of a stream."""

    def whole(self, choices: Sequence[dict[str, Any]], **more: dict[str, Any]) -> dict[str, Any]:
        """The whole reply, with `usage` and what else stands beside the choices."""
        kind = "chat.completion" if self.chat else "text_completion"
        return self._head(kind) | {"choices": list(choices), **more}

    def choice(
        self, index: int, done: Completion, logprobs: dict[str, Any] | None
    ) -> dict[str, Any]:
        text = done.text or ""
        ending = {"logprobs": logprobs, "finish_reason": done.finish_reason, **self._own(done)}
        if not self.chat:
            return {"index": index, "text": text, **ending}
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, **ending}

    def chunk(self, choices: str, more: str = "") -> str:
        """A line of the stream; choices and more are JSON already, because updates come often."""
        return f'{self._chunk_head},"choices":[{choices}]{more}}}\n\n'

    def opening(self, index: int) -> str:
        return self._part(index, {"role": "assistant", "content": ""} if self.chat else "")

    def delta(self, index: int, text: str) -> str:
        return self._part(index, {"content": text} if self.chat else text)

    def silent(self, index: int) -> str:
        """A choice that nothing is added to; a row has many of them."""
        if index not in self._silences:
            self._silences[index] = self._part(index, {} if self.chat else "")
        return self._silences[index]

    def closing(self, index: int, done: Completion, logprobs: dict[str, Any] | None) -> str:
        content: dict[str, str] | str = {} if self.chat else ""
        return self._part(index, content, done.finish_reason, logprobs, **self._own(done))

    def _own(self, done: Completion) -> dict[str, Any]:
        """What OpenAI's API has no words for."""
        fields: dict[str, Any] = {"gaps": done.gaps} if _behind(done) else {}
        if self.tokens:
            fields |= _per_token(done)
        if self.states:
            fields["states"] = [list(state) for state in done.states()]
        return {"archer": fields} if fields else {}

    @cached_property
    def _silences(self) -> dict[int, str]:
        return {}

    @cached_property
    def _chunk_head(self) -> str:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        head = json.dumps(self._head(kind), separators=(",", ":"))
        return f"data: {head[:-1]}"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _part(
        self,
        index: int,
        content: dict[str, str] | str,
        reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
        **more: Any,
    ) -> str:
        name = "delta" if self.chat else "text"
        part = {"index": index, name: content, "logprobs": logprobs, "finish_reason": reason} | more
        return json.dumps(part, separators=(",", ":"), allow_nan=False)


def _per_token(done: Completion) -> dict[str, Any]:
    return {
        "token_ids": list(done.tokens),
        "written_at": list(done.written_at),
        "confidences": list(done.confidences),
        "passes_per_token": done.passes_per_token,
        "weights_version": done.weights_version,
    }


def _behind(done: Completion) -> bool:
    """Whether text was given behind a gap."""
    return any(done.parts[1:])


def error_line(body: dict[str, Any]) -> str:
    """An error after the first byte, which clients raise."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


def counted(model: Model, done: Completion) -> int:
    """Tokens up to and with the first end id, or up to where a stop string cut the text.

    Those that every accepted answer begins with are some of them.
    In gaps, all tokens but end marks.
    """
    seen = len(shown(model, done))
    if _behind(done):
        return seen
    written = seen - len(done.opened)
    whole = written == len(model.language.visible(done.tokens))
    return seen + (whole and written < len(done.tokens) and done.tokens[written] in model.end_ids)


def shown(model: Model, done: Completion) -> list[int]:
    """The tokens whose text the client sees: up to an end id, a mask or the cut of a stop string."""
    text, mask = model.text, model.folder.mask
    if _behind(done):
        return [token for token in done.tokens if token not in model.end_ids]
    tokens = [*done.opened, *model.language.visible(done.tokens)]
    tokens = tokens[: tokens.index(mask)] if mask in tokens else tokens
    if text is None or done.text is None or len(text.decode(tokens)) <= len(done.text):
        return tokens
    characters = len(done.text)
    return tokens[: model.language.fewest(tokens, lambda text: len(text) >= characters)]


def usage(model: Model, done: Sequence[Completion], prompts: int, columns: int) -> dict[str, Any]:
    """What was consumed; prompts, and samples that leave nothing to chance, are counted once."""
    written = sum(counted(model, each) for each in done)
    rows = list({id(each): each for each in done}.values())
    return {
        "prompt_tokens": prompts,
        "completion_tokens": written,
        "total_tokens": prompts + written,
        "prompt_tokens_details": {"cached_tokens": 0},
        "archer": {
            "canvas_tokens": sum(max(each.history.stops, default=0) for each in done),
            "updates": sum(each.updates for each in rows),
            "full": sum(each.full_passes for each in rows),
            "cached": sum(each.cached_passes for each in rows),
            "reused": sum(each.reused_passes for each in rows),
            "revised": sum(each.revised_positions for each in rows),
            "revised_text": sum(each.revised_text for each in rows),
            "columns": columns,
        },
    }


def logprobs(model: Model, done: Completion, chat: bool) -> dict[str, Any]:
    """The logarithm of each token's confidence at the acceptance that stands; their sum is no likelihood."""
    tokens = shown(model, done)
    pieces = [str(token) if model.text is None else model.text.piece(token) for token in tokens]
    pairs = zip(done.tokens, done.confidences, strict=True)
    read = [sure for token, sure in pairs if not _behind(done) or token not in model.end_ids]
    sure = [_logarithm(each) for each in (*[1.0] * len(done.opened), *read)][: len(tokens)]
    if not chat:
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + len(piece))
        return {
            "tokens": pieces,
            "token_logprobs": sure,
            "top_logprobs": [{} for _ in pieces],
            "text_offset": offsets[:-1],
        }
    content = [
        {"token": piece, "logprob": value, "bytes": list(piece.encode()), "top_logprobs": []}
        for piece, value in zip(pieces, sure, strict=True)
    ]
    return {"content": content, "refusal": None}


def _logarithm(confidence: float | None) -> float | None:
    if confidence is None:
        return None
    return math.log(min(confidence, 1.0)) if confidence > 0 else NEVER
