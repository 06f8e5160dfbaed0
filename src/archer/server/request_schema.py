"""What a client may write into a request, field by field, and the request in the words of this package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from archer.request.fill import Fill
from archer.server import limits
from archer.structure.structures import Structure

NEUTRAL: Mapping[str, Sequence[Any]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "min_p": (0,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": ("none",),
    "repetition_penalty": (1,),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Fields that are not supported -> the values beside null with which they change nothing."""
NEUTRAL_IN_MESSAGES: Mapping[str, Sequence[Any]] = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "refusal": (),
    "tool_calls": ([],),
    "type": ("text", "message"),
}
Inner = TypeVar("Inner")
Several = Annotated[list[Inner], Field(fail_fast=True)]
"""A list whose first wrong element ends the search: collecting them all would take seconds."""
Whole = Annotated[int, Field(ge=-limits.WHOLE, lt=limits.WHOLE)]
Label = Annotated[str, Field(max_length=limits.LABEL)]
Stop = Annotated[str, Field(min_length=1, max_length=limits.STOP_LENGTH)]
Stops = Annotated[Several[Stop], Field(max_length=limits.STOPS)]
Ids = Annotated[Several[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(min_length=1)]
Line = Annotated[str, Field(min_length=1)]
Lines = Annotated[Several[Line], Field(min_length=1, max_length=limits.ROWS)]
IdLists = Annotated[Several[Ids], Field(min_length=1, max_length=limits.ROWS)]
Numbers = Annotated[Several[float], Field(max_length=limits.NUMBERS)]
Lengths = Annotated[Several[int | Label], Field(max_length=limits.NUMBERS)]
"""One for each gap."""
Setting = (
    int
    | float
    | str
    | bool
    | Annotated[Several[Numbers], Field(max_length=limits.NUMBERS)]
    | Lengths
    | None
)
Message = dict[str, str]


@dataclass(frozen=True)
class Chat:
    """Messages that the model's template turns into a prompt."""

    messages: list[Message]


Prompt = str | list[int] | Chat | Fill
"""A fill's own prompt is a list of messages, or None."""


def texts_of(prompt: Prompt) -> list[str]:
    """All of a prompt that has to be encoded; the template's own text is not counted."""
    parts = prompt.parts if isinstance(prompt, Fill) else [prompt]
    messages = prompt.messages if isinstance(prompt, Chat) else []
    if isinstance(prompt, Fill) and prompt.prompt is not None:
        messages = prompt.prompt
    texts = [part for part in parts if isinstance(part, str)]
    return texts + [message["content"] for message in messages]


class Fields(BaseModel):
    """No field beyond those declared, and no guessing of types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class MessagePart(Fields):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(Fields):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Several[MessagePart]

    def plain(self) -> Message:
        """As the templates of models know it, which say system where newer clients say developer."""
        parts = self.content
        text = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class Streaming(Fields):
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class Extension(Fields):
    """The field `archer`: what OpenAI's API has no words for."""

    method: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    settings: Annotated[dict[str, Setting], Field(max_length=limits.SETTINGS)] | None = None
    preset: Label | None = None
    stream_mode: Literal["final", "provisional"] | None = None
    priority: Literal["interactive", "batch"] | None = None
    isolated: bool | None = None
    prefill: str | None = None
    """How the answer of a chat begins, or all of it with gaps."""
    gap: Label | None = None
    """What stands for a gap in the prefill of a chat, or in the prompt of a completion."""
    grid: bool | None = None
    """The message of a chat is a Sudoku grid, whose empty cells are written [default: false]."""
    healing: bool | None = None
    """Whether tokens next to a gap may be written anew [default: true]."""
    curve: Numbers | None = None
    """By which the length of a gap is searched for [default: the published one]."""
    return_tokens: bool | None = None
    """Add to each choice what is known of each token: its id, the update that wrote it, how sure it was."""
    return_states: bool | None = None
    """Add what stood there before each update, and at the end."""


class NamedSchema(Fields):
    name: Label | None = None
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Fields):
    """What the answer has to be; an object of any kind is nested a few levels deep at most."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class Common(Fields):
    """What both routes take."""

    model: Annotated[str, Field(min_length=1, max_length=limits.LABEL)]
    max_tokens: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None
    seed: Whole | None = None
    n: Annotated[int, Field(ge=1, le=limits.SAMPLES)] | None = None
    stop: Stop | Stops | None = None
    stream: bool | None = None
    stream_options: Streaming | None = None
    user: Label | None = None
    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: (
        Annotated[Several[str], Field(min_length=1, max_length=limits.NUMBERS)] | None
    ) = None
    archer: Extension | None = None


class ChatFields(Common):
    """`POST /v1/chat/completions`"""

    messages: Annotated[Several[ChatMessage], Field(min_length=1, max_length=limits.MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None
    logprobs: bool | None = None
    metadata: Annotated[dict[Label, Label], Field(max_length=16)] | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None
    continue_final_message: bool | None = None
    """The last message is the assistant's, and the answer goes on from it."""
    add_generation_prompt: bool | None = None
    """False only where the last message is continued."""


class TextFields(Common):
    """`POST /v1/completions`"""

    prompt: Line | Ids | Lines | IdLists
    suffix: str | None = None
    """What stands behind the text that is written."""
    logprobs: Literal[0] | None = None


@dataclass(frozen=True)
class InfillView:
    """What a client of `/infill` wants to read."""

    indent: int
    """The text ends before its first new line that is indented by less."""
    tokens: bool
    """Whether it wants ids, too."""
    shown: tuple[str, ...] | None
    """Fields of the reply; None for all."""


@dataclass(frozen=True)
class GenerationRequest:
    """A request in the words of this package."""

    chat: bool
    model: str
    """Empty where the client names none."""
    prompts: tuple[Prompt, ...]
    length: int | None
    """Of a response; of a gap with text behind it, the most."""
    temperature: float | None
    top_p: float | None
    """1 cuts nothing; it is a setting all the same where a method would cut by itself."""
    top_k: int | None
    """None where the client's number means that nothing is cut."""
    seed: int
    n: int
    stop: tuple[str, ...]
    stream: bool
    usage: bool
    """Whether a stream ends with its usage; a plain reply always tells it."""
    logprobs: bool
    extension: Extension
    structure: Structure | None = None
    """What the answer has to be."""
    infill: InfillView | None = None
    """Where it speaks llama.cpp's language."""

    @property
    def gapped(self) -> bool:
        """Text stands behind what is written, so that the length is one to be found."""
        return any(isinstance(each, Fill) and not each.one_open_gap for each in self.prompts)

    @property
    def provisional(self) -> bool:
        return self.stream and self.extension.stream_mode == "provisional"


def schema(kind: type[Fields], neutral: Mapping[str, Sequence[Any]] = NEUTRAL) -> dict[str, Any]:
    """The JSON schema of a body, fields with neutral values included; it stands by itself.

    Nothing in it refers to a definition: where it is put into a larger document, references would point
    beside it, and clients that read the document would see no body at all.
    """
    described = kind.model_json_schema()
    parts = described.pop("$defs", {})
    whole: dict[str, Any] = _inlined(described, parts)
    for name, values in neutral.items():
        whole["properties"].setdefault(name, {"enum": [*values, None]})
    return whole


def _inlined(part: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(each, parts) for each in part]
    if not isinstance(part, dict):
        return part
    name = part.get("$ref", "").removeprefix("#/$defs/")
    return {
        key: _inlined(value, parts)
        for key, value in ({**parts[name], **part} if name else part).items()
        if key != "$ref"
    }
