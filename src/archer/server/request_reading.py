"""From the body of a request to what it asks for, or to a refusal that names the field.

What means nothing here must be neutral; nothing is ignored but what the operator said.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from archer.errors import BadRequest
from archer.methods.catalogue import LENGTHS
from archer.pocket import grids
from archer.request.fill import Fill
from archer.server import limits
from archer.server.body import parse
from archer.server.refusals import Refusal, refusal
from archer.server.request_schema import (
    NEUTRAL,
    NEUTRAL_IN_MESSAGES,
    Chat,
    ChatFields,
    ChatMessage,
    Common,
    Extension,
    Fields,
    GenerationRequest,
    Message,
    Prompt,
    TextFields,
)
from archer.structure.structures import Structure

EXPLAINED: Mapping[str, str] = {
    "archer.stream_mode": (
        "must be final or provisional. Text that has merely not changed for a while can still be taken "
        "back, and a delta cannot, so there is no mode that sends such text; provisional events tell "
        "how long the unchanged prefix is"
    ),
    "messages.content": "must be a text, or a list of parts of the type text",
    "prompt": (
        "must be a text, a list of token ids, or a list of either; "
        f"at most {limits.ROWS} prompts, none of them empty"
    ),
    "stop": (
        f"must be a text of 1 to {limits.STOP_LENGTH} characters, or a list of at most {limits.STOPS}"
    ),
    "archer.settings": (
        f"must hold at most {limits.SETTINGS} names and values, each a number, a text, true or false, "
        f"a list of at most {limits.NUMBERS} lists of as many numbers, or one of lengths"
    ),
    "logprobs": (
        "must be true or false for chats and 0 for completions: the model's alternatives are those of "
        "many different moments, so they are not told"
    ),
}
"""What to say of a field whose declaration would say it badly."""

NAME_SHOWN = 100
"""Characters that a refusal repeats of a name that is not known."""


def chat_request(body: Mapping[str, Any]) -> GenerationRequest:
    """The request in a body of `/v1/chat/completions`."""
    body = without_neutral(body, NEUTRAL, "", ChatFields)
    messages = body.get("messages")
    if isinstance(messages, list):
        stripped = [
            without_neutral(each, NEUTRAL_IN_MESSAGES, f"messages.{place}.", ChatMessage)
            if isinstance(each, dict)
            else each
            for place, each in enumerate(messages)
        ]
        body["messages"] = stripped
    fields = checked(ChatFields, body)
    lengths = {fields.max_tokens, fields.max_completion_tokens} - {None}
    if len(lengths) > 1:
        sentence = "max_tokens and max_completion_tokens mean the same here; give one of them."
        raise Refusal(400, sentence, param="max_tokens")
    messages = [message.plain() for message in fields.messages]
    prompt = _begun(messages, fields)
    return _generation(fields, True, (prompt,), next(iter(lengths), None), fields.logprobs is True)


def text_request(body: Mapping[str, Any]) -> GenerationRequest:
    """The request in a body of `/v1/completions`."""
    fields = checked(TextFields, without_neutral(body, NEUTRAL, "", TextFields))
    prompts = _with_gaps(_prompts(fields.prompt), fields.suffix, fields.archer or Extension())
    generation = _generation(fields, False, prompts, fields.max_tokens, fields.logprobs is not None)
    if len(prompts) * generation.n > limits.ROWS:
        sentence = (
            f"{len(prompts)} prompts with n = {generation.n} are more than {limits.ROWS} responses."
        )
        raise Refusal(400, sentence, param="n")
    return generation


def _prompts(prompt: Any) -> tuple[str | list[int], ...]:
    """One text or list of ids, or several of them; the schema has seen to it that it is one of these."""
    return (prompt,) if isinstance(prompt, str) or isinstance(prompt[0], int) else tuple(prompt)


def _begun(messages: list[Message], fields: ChatFields) -> Prompt:
    """A chat, with the beginning of its answer if there is one, or with its gaps."""
    extension = fields.archer or Extension()
    begun, continued = extension.prefill, fields.continue_final_message is True
    if fields.add_generation_prompt is continued:
        sentence = (
            "add_generation_prompt is the opposite of continue_final_message: "
            "an answer goes on from the last message, or begins anew."
        )
        raise Refusal(400, sentence, param="add_generation_prompt")
    if extension.grid:
        return _grid(messages, fields, extension)
    if continued:
        if begun is not None:
            sentence = "The answer's beginning is given twice, as archer.prefill and as a message."
            raise Refusal(400, sentence, param="archer.prefill")
        if messages[-1]["role"] != "assistant" or len(messages) < 2:
            sentence = (
                "continue_final_message needs a last message of the assistant's, and one before."
            )
            raise Refusal(400, sentence, param="continue_final_message")
        *messages, last = messages
        begun = last["content"]
    if extension.gap is None:
        return Fill((begun, ""), prompt=messages) if begun else Chat(messages)
    if not begun:
        sentence = "archer.gap marks gaps in an answer: give it as archer.prefill."
        raise Refusal(400, sentence, param="archer.gap")
    return _marked(begun, extension.gap, prompt=messages)


def _grid(messages: list[Message], fields: ChatFields, extension: Extension) -> Fill:
    """The chat that a model for Sudoku knows, with the digits of the grid given in its answer."""
    beside = {
        "max_tokens": fields.max_tokens,
        "max_completion_tokens": fields.max_completion_tokens,
        "continue_final_message": fields.continue_final_message,
        "archer.prefill": extension.prefill,
        "archer.gap": extension.gap,
    }
    lengths = LENGTHS & (extension.settings or {}).keys()
    beside |= {f"archer.settings.{name}": name for name in sorted(lengths)}
    for name, value in beside.items():
        if value not in (None, False):
            sentence = (
                f"A grid says itself what is given and how long its answer is. Leave out {name}."
            )
            raise Refusal(400, sentence, param=name)
    if [message["role"] for message in messages] != ["user"]:
        sentence = "With archer.grid the grid is the only message, and the user's."
        raise Refusal(400, sentence, param="messages")
    try:
        fill = grids.fill(grids.typed(messages[0]["content"]))
    except BadRequest as error:
        raise Refusal(400, str(error), param="messages") from error
    return fill.with_prompt([{"role": "user", "content": fill.prompt}])


def refuse_grid(extension: Extension) -> None:
    """On routes that know no chat."""
    if extension.grid:
        sentence = "archer.grid is for /v1/chat/completions, where the grid is the message."
        raise Refusal(400, sentence, param="archer.grid")


def _with_gaps(
    prompts: Sequence[str | list[int]], suffix: str | None, extension: Extension
) -> tuple[Prompt, ...]:
    """Plain prompts, with the suffix behind what is written, or with their own gaps."""
    refuse_grid(extension)
    if extension.prefill is not None:
        sentence = "archer.prefill begins the answer of a chat; write it at the end of the prompt."
        raise Refusal(400, sentence, param="archer.prefill")
    if extension.gap is None:
        return tuple(Fill((each, suffix)) if suffix else each for each in prompts)
    if suffix:
        sentence = "A prompt with gaps says itself what stands behind them; leave out the suffix."
        raise Refusal(400, sentence, param="suffix")
    return tuple(_marked(each, extension.gap) for each in prompts)


def _marked(text: object, gap: str, **more: Any) -> Fill:
    try:
        return Fill.marked(text, gap, **more)
    except BadRequest as error:
        raise refusal(error) from error


def _generation(
    fields: Common, chat: bool, prompts: tuple[Prompt, ...], length: int | None, logprobs: bool
) -> GenerationRequest:
    stream = fields.stream is True
    if fields.stream_options is not None and not stream:
        raise Refusal(400, "stream_options need stream = true.", param="stream_options")
    extension = fields.archer or Extension()
    if extension.stream_mode is not None and not stream:
        raise Refusal(400, "archer.stream_mode needs stream = true.", param="archer.stream_mode")
    stop = fields.stop or []
    return GenerationRequest(
        chat=chat,
        model=fields.model,
        prompts=prompts,
        length=length,
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=None if fields.top_k in (-1, 0) else fields.top_k,
        seed=fields.seed or 0,
        n=fields.n or 1,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stream=stream,
        usage=fields.stream_options is not None and fields.stream_options.include_usage is True,
        logprobs=logprobs,
        extension=extension,
        structure=_structure(fields),
    )


def _read(schema: str) -> Any:
    """A schema that is given as text, bounded as a body is."""
    try:
        return parse(schema.encode())
    except Refusal as refused:
        sentence = refused.message.replace("The request", "The schema", 1)
        raise Refusal(400, sentence, param="guided_json") from refused


def _structure(fields: Common) -> Structure | None:
    """What the answer has to be, by whichever name it was asked for."""
    form, schema = fields.response_format, fields.guided_json
    if form is not None and form.type != "text":
        named = None if form.json_schema is None else form.json_schema.schema_
        if form.type == "json_schema" and named is None:
            sentence = "The field 'response_format.json_schema.schema' is missing."
            raise Refusal(400, sentence, param="response_format.json_schema.schema")
        if schema is not None:
            sentence = "response_format and guided_json mean the same here; give one of them."
            raise Refusal(400, sentence, param="guided_json")
        schema = {"type": "object"} if form.type == "json_object" else named
    if isinstance(schema, str):
        schema = _read(schema)
    try:
        return Structure.of(schema, fields.guided_regex, fields.guided_choice)
    except BadRequest as error:
        raise refusal(error) from None


Kind = TypeVar("Kind", bound=Fields)


def checked(kind: type[Kind], body: Mapping[str, Any]) -> Kind:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise _refused(first["type"], first["loc"], first["msg"]) from None


def _refused(kind: str, where: Sequence[int | str], message: str) -> Refusal:
    """Names the field as it stands in the request, without the branches of unions that pydantic adds."""
    if kind == "extra_forbidden":
        *where, unknown = where
    plain = [str(part) for part in where if isinstance(part, int) or part.isidentifier()]
    if kind == "extra_forbidden":
        param = ".".join([*plain, str(unknown)[:NAME_SHOWN]])
        return Refusal(400, f"The field {param!r} is not supported here.", param=param)
    param = ".".join(plain)
    if kind == "missing":
        return Refusal(400, f"The field {param!r} is missing.", param=param)
    for name, words in EXPLAINED.items():
        field = _reached(plain, name.split("."))
        if field is not None:
            return Refusal(400, f"{field} {words}.", param=field)
    return Refusal(400, f"{param}: {message}.", param=param)


def _reached(where: Sequence[str], known: Sequence[str]) -> str | None:
    """The beginning of a place in the request that ends with the known names; None if it is elsewhere."""
    left = list(known)
    for place, part in enumerate(where, start=1):
        if left and part == left[0]:
            left.pop(0)
        elif not part.isdecimal():
            return None
        if not left:
            return ".".join(where[:place])
    return None


def without_neutral(
    body: Mapping[str, Any],
    table: Mapping[str, Sequence[Any]],
    prefix: str,
    declared: type[Fields],
) -> dict[str, Any]:
    """Drops fields whose value changes nothing; refuses the same fields with any other value."""
    for name in unsupported(body, table, declared):
        words = f"The field {prefix + name!r} is not supported here"
        allowed = ", ".join(map(repr, table[name]))
        sentence = f"{words}; leave it out." if not allowed else f"{words} beyond {allowed}."
        raise Refusal(400, sentence, param=prefix + name)
    own = declared.model_fields
    return {name: value for name, value in body.items() if name in own or name not in table}


def unsupported(
    body: Mapping[str, Any], table: Mapping[str, Sequence[Any]], declared: type[Fields]
) -> list[str]:
    """The fields of a body that mean nothing here and have a value that would change something."""
    return [
        name
        for name, value in body.items()
        if name in table
        and name not in declared.model_fields
        and value is not None
        and not any(_same(value, each) for each in table[name])
    ]


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, but 1.0 is."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)
