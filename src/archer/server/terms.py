"""What clients may ask of a model, and what is decoded for them then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archer.errors import BadRequest, TooLong
from archer.methods.build import Choice
from archer.methods.catalogue import ALIASES, DEFAULT_METHOD, LENGTHS, METHODS
from archer.methods.compatibility import check_attention
from archer.methods.spelling import settings_taken, spelled_out
from archer.network.shape import Blocks
from archer.pocket import grids
from archer.request.fill import AUTO, Fill
from archer.server import limits
from archer.server.refusals import Refusal, refusal
from archer.server.request_schema import GenerationRequest, Prompt, texts_of
from archer.server.settings import ServerSettings

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Request

NOT_SETTINGS = frozenset({"prompts", "method", "seed", "chat", "allow_special", "preset", "self"})
"""Options of `Model.request` itself, which have fields of their own or none."""
REACHED_BY = {"length", "canvas", "block"}
"""Settings that say how a length is reached."""


class Terms:
    """A model by the name clients call it, and the bounds that its operator and its own size set them.

    It reads requests and refuses them; it runs none.
    """

    def __init__(self, model: Model, name: str, settings: ServerSettings) -> None:
        self.name = name
        self._model, self._settings = model, settings
        self._preset = settings.decoding
        if self._preset is not None:
            chosen = self._preset.under({}).build(model.folder.recommended)
            check_attention(chosen, model.folder.shape.attention)
        assert model.text is not None
        tokens = model.text.tokenizer.get_vocab(with_added_tokens=True)
        self.grids = grids.known(tokens)
        """Sizes of Sudoku grids that the model fills; for most models none."""
        self._most_bytes = model.folder.shape.max_positions * max(map(len, tokens))

    @property
    def ids(self) -> list[str]:
        """Names by which the model can be asked for: its own, and one with each method."""
        return [self.name, *(f"{self.name}@{method}" for method in METHODS)]

    def method(self, name: str) -> str | None:
        """The method that a model id names, None where it names none; refuses other models."""
        if name in ("", self.name):
            return None
        own, at, method = name.rpartition("@")
        if own == self.name and at and method:
            return method
        raise self.no_model(name)

    def no_model(self, name: str) -> Refusal:
        return Refusal(
            404,
            f"There is no model {name[:100]!r} here. The model is {self.name!r}, "
            f"and {self.name + '@METHOD'!r} decodes it by another method.",
            param="model",
            code="model_not_found",
        )

    def choice(self, generation: GenerationRequest) -> Choice:
        """The method of a request, and its settings from wherever they stand in it."""
        named, own = self.method(generation.model), generation.extension.method
        if named is not None and own is not None:
            sentence = "The method is given twice, in the model's name and as archer.method."
            raise Refusal(400, sentence, param="archer.method")
        own_settings = generation.extension.settings or {}
        settings = dict(own_settings) if generation.gapped else spelled_out(own_settings)
        for name in settings.keys() & NOT_SETTINGS:
            raise refusal(BadRequest(f"{name!r} is not a setting of a method."))
        for field in ("length", "temperature", "top_p", "top_k"):
            value = getattr(generation, field)
            if value is None:
                continue
            if _says_how_long(settings, generation) if field == "length" else field in settings:
                sentence = f"The {field} is given twice, as a field and in archer.settings."
                raise Refusal(400, sentence, param=f"archer.settings.{field}")
            settings["max_length" if field == "length" and generation.gapped else field] = value
        preset = generation.extension.preset
        choice = Choice(named or own or "", settings, preset)
        if self._preset is not None and named is None and own is None and preset is None:
            choice = self._preset.under(settings)
        method = choice.named(self._model.folder.recommended)
        if generation.top_p == 1 and not _takes(method, "top_p"):
            kept = {name: value for name, value in choice.settings.items() if name != "top_p"}
            choice = replace(choice, settings=kept)
        for name in LENGTHS & choice.settings.keys():
            self._check_length(choice.settings[name])
        if self._follows(choice, generation):
            choice = replace(choice, settings={**choice.settings, "canvas": AUTO})
        return choice

    def _follows(self, choice: Choice, generation: GenerationRequest) -> bool:
        """Whether the length is a limit: the default decodes, and nobody has said how a length is reached."""
        folder = self._model.folder
        default = not choice.method and choice.named(folder.recommended) == DEFAULT_METHOD
        names = {ALIASES.get(name, name) for name in generation.extension.settings or {}}
        fixed = generation.gapped or generation.extension.grid is True
        sees_ends = not fixed and not isinstance(folder.shape.attention, Blocks)
        return default and sees_ends and not names & REACHED_BY

    def check_prompts(self, generation: GenerationRequest) -> None:
        """Refuse texts that are too long and grids that the model does not fill, before they are encoded."""
        for prompt in generation.prompts:
            self._check_size(prompt)
            if generation.extension.grid and isinstance(prompt, Fill):
                self._check_grid(prompt)

    def requests(
        self, generation: GenerationRequest, choice: Choice, prompts: Sequence[list[int] | Fill]
    ) -> list[Request]:
        """What the model is asked, once for each prompt; the prompts are encoded."""
        made = []
        structure = generation.structure
        has_to_be: dict[str, Any] = {} if structure is None else {structure.kind: structure.value}
        for prompt in prompts:
            request = self._model.request(
                prompt,
                choice.method,
                seed=generation.seed,
                preset=choice.preset,
                settings=choice.settings,
                healing=generation.extension.healing is not False,
                curve=generation.extension.curve,
                **has_to_be,
            )
            self._check_length(request.method.length)
            made.append(request)
        if generation.extension.return_states:
            self._check_states(made, generation.n)
        if (
            generation.provisional
            and len(made) > 1
            and any(each.prompts[0].searched for each in made)
        ):
            raise Refusal(
                400,
                "Provisional events begin when the lengths of all gaps are known, and those of several "
                "prompts are found one after the other. Send one prompt, or say the length.",
                param="archer.stream_mode",
            )
        return made

    def _check_states(self, requests: Sequence[Request], n: int) -> None:
        """Refuse states that would make a reply too large."""
        lengths = [(each.method.length, each.method.decoder) for each in requests]
        tokens = n * sum(length * (decoder.limit(length) + 1) for length, decoder in lengths)
        if tokens > limits.STATES:
            raise Refusal(
                400,
                f"All states of the responses may be {tokens} tokens, and at most {limits.STATES} are sent. "
                "Ask for fewer tokens or responses, or for return_tokens, which tells the update that wrote "
                "each of them.",
                param="archer.return_states",
            )

    def _check_size(self, prompt: Prompt) -> None:
        """Refuse a text that cannot fit however few tokens it makes: encoding it would cost memory."""
        if sum(len(text.encode()) for text in texts_of(prompt)) > self._most_bytes:
            raise refusal(
                TooLong(
                    f"The prompt is longer than {self._most_bytes} bytes, which is more than the "
                    f"{self._model.folder.shape.max_positions} positions of the model can hold. Shorten it."
                )
            )

    def _check_grid(self, grid: Fill) -> None:
        """Refuse a grid that the model was not made for: it would write anything at all."""
        (message,) = grid.prompt
        if message["content"] not in map(grids.message, self.grids):
            raise Refusal(
                400,
                f"{self.name!r} does not fill grids of this size: it has no word for {message['content']!r}. "
                "Ask a model that does, such as the bundled pocket-sudoku.",
                param="archer.grid",
            )

    def _check_length(self, length: Any) -> None:
        """Before anything is laid out for it; a setting may say it as 300.0 or "300", or for each gap."""
        if isinstance(length, list):
            length = sum(each for each in length if isinstance(each, int))
        try:
            longer = float(length) > self._settings.max_length
        except (TypeError, ValueError):
            return  # refused as a setting, with what it may be
        if longer:
            raise Refusal(
                400,
                f"A response of {length} tokens is longer than this server allows, "
                f"which is {self._settings.max_length}.",
                param="max_tokens",
                code="context_length_exceeded",
            )


def _says_how_long(settings: dict[str, Any], generation: GenerationRequest) -> bool:
    """Whether the settings say what `max_tokens` says; how a gap's length is found is another thing."""
    lengths = [settings[name] for name in LENGTHS if settings.get(name) is not None]
    return any(not generation.gapped or not isinstance(each, str) for each in lengths)


def _takes(method: str, setting: str) -> bool:
    """Whether a method has a setting; one that does not exist is refused by its name elsewhere."""
    try:
        return setting in settings_taken(method)
    except BadRequest:
        return True
