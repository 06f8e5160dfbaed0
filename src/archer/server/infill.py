"""`POST /infill` in llama.cpp's words, which editors speak: its fields, and its replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from archer.methods.spelling import plain
from archer.request.fill import Fill
from archer.results.completion import Completion
from archer.server import limits
from archer.server.refusals import Refusal
from archer.server.replies import Reply, counted
from archer.server.request_reading import checked, refuse_grid, without_neutral
from archer.server.request_schema import (
    Extension,
    Fields,
    GenerationRequest,
    InfillView,
    Label,
    Prompt,
    Several,
    Stops,
    Whole,
)

HINTS = frozenset(
    {
        "cache_prompt",
        "id_slot",
        "n_cache_reuse",
        "n_keep",
        "return_progress",
        "sse_ping_interval",
        "t_max_predict_ms",
        "t_max_prompt_ms",
        "timings_per_token",
    }
)
"""Wishes about how llama.cpp works, not about what it writes: any value will do."""
CUTS = frozenset(
    {
        "dynatemp_exponent",
        "dynatemp_range",
        "min_keep",
        "min_p",
        "mirostat",
        "mirostat_eta",
        "mirostat_tau",
        "samplers",
        "top_k",
        "top_p",
        "typical_p",
        "xtc_probability",
        "xtc_threshold",
    }
)
"""How a token is drawn: means nothing at temperature 0, which is the default here."""
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "frequency_penalty": (0,),
    "grammar": ("",),
    "ignore_eos": (False,),
    "json_schema": (),
    "logit_bias": ([], {}),
    "lora": ([],),
    "min_p": (0,),
    "mirostat": (0,),
    "n_cmpl": (1,),
    "n_probs": (0,),
    "post_sampling_probs": (False,),
    "presence_penalty": (0,),
    "repeat_penalty": (1,),
    "typical_p": (1,),
    "xtc_probability": (0,),
}


class Extra(Fields):
    """A piece of another file."""

    text: str
    filename: Label | None = None
    time: float | None = None


class InfillFields(Fields):
    """`POST /infill`"""

    model: Annotated[str, Field(max_length=limits.LABEL)] | None = None
    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[Several[Extra], Field(max_length=limits.MESSAGES)] | None = None
    prompt: str = ""
    """What stands between the prefix and the gap: the beginning of a line."""
    n_predict: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None
    """Tokens at the most; -1 leaves it to the server."""
    n_indent: Annotated[int, Field(ge=0, lt=1 << 16)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None
    seed: Whole | None = None
    stop: Stops | None = None
    stream: bool | None = None
    return_tokens: bool | None = None
    response_fields: Annotated[Several[Label], Field(max_length=limits.SETTINGS)] | None = None
    archer: Extension | None = None


def infill_request(body: Mapping[str, Any]) -> GenerationRequest:
    """The request in a body of `/infill`."""
    greedy = not body.get("temperature")
    dropped = HINTS | CUTS if greedy else HINTS
    relevant = {name: value for name, value in body.items() if name not in dropped}
    fields = checked(InfillFields, without_neutral(relevant, NEUTRAL, "", InfillFields))
    extension = fields.archer or Extension()
    for name in ("stream_mode", "prefill", "gap"):
        if getattr(extension, name) is not None:
            sentence = f"archer.{name} is for /v1/completions and /v1/chat/completions."
            raise Refusal(400, sentence, param=f"archer.{name}")
    refuse_grid(extension)
    if fields.stream and fields.n_indent:
        sentence = "n_indent cuts the whole text; leave out stream, or n_indent."
        raise Refusal(400, sentence, param="n_indent")
    extras = "".join(f"{each.text}\n\n" for each in fields.input_extra or ())
    before = f"{extras}{fields.input_prefix}{fields.prompt}"
    if not before and not fields.input_suffix:
        sentence = "Nothing is given around the gap. Send input_prefix, input_suffix or prompt."
        raise Refusal(400, sentence, param="input_prefix")
    prompt: Prompt = Fill((before, fields.input_suffix)) if fields.input_suffix else before
    return GenerationRequest(
        chat=False,
        model=fields.model or "",
        prompts=(prompt,),
        length=None if fields.n_predict == -1 else fields.n_predict,
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=None if fields.top_k in (-1, 0) else fields.top_k,
        seed=0 if fields.seed in (None, -1) else fields.seed or 0,
        n=1,
        stop=tuple(fields.stop or ()),
        stream=fields.stream is True,
        usage=False,
        logprobs=False,
        extension=extension,
        infill=InfillView(
            indent=fields.n_indent or 0,
            tokens=fields.return_tokens is True,
            shown=None if fields.response_fields is None else tuple(fields.response_fields),
        ),
    )


@dataclass(frozen=True)
class InfillReply(Reply):
    """What llama.cpp's clients read: one object, or one for each piece of text and a last one."""

    infill: InfillView
    stop: tuple[str, ...]
    done: ClassVar[str] = ""

    def whole(self, choices: Sequence[dict[str, Any]], **more: dict[str, Any]) -> dict[str, Any]:
        (choice,) = choices
        return self._picked(choice | more)

    def choice(
        self, index: int, done: Completion, logprobs: dict[str, Any] | None
    ) -> dict[str, Any]:
        return self.last(done, indented(done.text or "", self.infill.indent))

    def chunk(self, choices: str, more: str = "") -> str:
        return f"data: {choices}\n\n"

    def opening(self, index: int) -> str:
        return self.delta(index, "")

    def delta(self, index: int, text: str) -> str:
        piece = {"index": index, "content": text, "tokens": [], "stop": False}
        return json.dumps(piece, separators=(",", ":"))

    def closing(self, index: int, done: Completion, logprobs: dict[str, Any] | None) -> str:
        return json.dumps(self._picked(self.last(done, "")), separators=(",", ":"))

    def last(self, done: Completion, content: str) -> dict[str, Any]:
        """The object that says how it ended; of a stream without the text, which was told."""
        written, request = counted(self.served, done), done.request
        word = self._stopping_word(done)
        kind = "word" if word else "eos" if done.finish_reason == "stop" else "limit"
        milliseconds = 1000 * done.seconds.total
        return {
            "index": 0,
            "content": content,
            "tokens": list(done.tokens) if self.infill.tokens else [],
            "id_slot": -1,
            "stop": True,
            "model": self.model,
            "tokens_predicted": written,
            "tokens_evaluated": done.prompt_tokens,
            "tokens_cached": 0,
            "truncated": False,
            "has_new_line": "\n" in (done.text or ""),
            "stop_type": kind,
            "stopping_word": word,
            "generation_settings": {}
            if request is None
            else {"method": request.method.name, **plain(request.method.settings)},
            "timings": {
                "prompt_n": done.prompt_tokens,
                "prompt_ms": 1000 * done.seconds.full,
                "predicted_n": written,
                "predicted_ms": milliseconds,
                "predicted_per_second": 1000 * written / milliseconds if milliseconds else 0.0,
            },
        }

    def _stopping_word(self, done: Completion) -> str:
        """The stop string that the tokens of the text end with; the text is cut before it."""
        if not self.stop or self.served.text is None:
            return ""
        text = self.served.text.decode(done.tokens)
        return next((word for word in self.stop if word in text), "")

    def _picked(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The fields that the client wants; a name such as timings/prompt_n reaches into an object."""
        if self.infill.shown is None:
            return reply
        picked = {}
        for name in self.infill.shown:
            place: Any = reply
            for part in name.split("/"):
                place = place.get(part) if isinstance(place, dict) else None
            if place is not None:
                picked[name] = place
        return picked


def indented(text: str, least: int) -> str:
    """The text up to its first new line that is indented by less; lines of white space alone do not count."""
    if not least:
        return text
    first, *lines = text.split("\n")
    kept = [first]
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) < least:
            break
        kept.append(line)
    return "\n".join(kept)
