"""The model `archer` of the lm-evaluation-harness, for tasks that generate; log-likelihoods are refused."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NoReturn

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from tqdm import tqdm

from archer import __version__
from archer.engine.generate import generate
from archer.errors import ArcherError, BadRequest
from archer.integrations.generation_kwargs import GenerationSettings, first_length, read_kwargs
from archer.loading.text.chat_template import ChatTemplate
from archer.loading.text.text import Text
from archer.methods.build import Choice, resolve
from archer.model import load
from archer.request import Request

NO_LIKELIHOOD = (
    "This task asks for log-likelihoods, as multiple choice and perplexity do. A diffusion language "
    "model writes its tokens in any order and may take them back, so it has no likelihood from left "
    "to right. Choose a task that generates (output_type: generate_until)."
)
UNLESS_TOLD = "cuda:0"
"""The device that the harness names when its user named none; Archer then takes the best there is."""
Batch = tuple[GenerationSettings, Sequence[Instance]]


class ArcherLM(LM):  # type: ignore[misc]  # the harness is not annotated
    """A model and a method as `model_args`; a task's length and temperature go first, none is ignored."""

    def __init__(
        self,
        pretrained: str | None = None,
        method: str | None = None,
        *,
        revision: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int | str = 1,
        seed: int = 0,
        preset: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if pretrained is None:
            raise BadRequest("No model is named: --model_args pretrained=FOLDER_OR_HUB_ID.")
        length = first_length(settings)
        self._settings = settings if length is None else settings | {"length": length}
        Choice(method or "", self._settings, preset).check()
        self._batch_size = _positive(batch_size)
        revision = None if revision is None else str(revision)
        device = None if device == UNLESS_TOLD else device
        self._model = load(pretrained, revision=revision, device=device, dtype=dtype)
        chosen = resolve(method, self._settings, preset, self._model.folder.recommended)
        self._method, self._preset, self._seed = chosen.name, preset, seed
        self._complete = dict(chosen.settings)
        self._revision = revision
        self._device = self._model.network.device

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Responses cut at their first stop string; every request is checked before the first is decoded."""
        batches = [(batch, self._request(batch)) for batch in self._batches(requests)]
        texts: list[str] = []
        with tqdm(total=len(requests), desc="archer", disable=disable_tqdm) as progress:
            for (wanted, instances), request in batches:
                decoded = self._decode(request, wanted.stops)
                for instance, text in zip(instances, decoded, strict=True):
                    texts.append(text)
                    self.cache_hook.add_partial("generate_until", instance.args, text)
                progress.update(len(instances))
        return texts

    def loglikelihood(self, requests: list[Instance]) -> NoReturn:
        """Refused."""
        raise BadRequest(NO_LIKELIHOOD)

    def loglikelihood_rolling(self, requests: list[Instance]) -> NoReturn:
        """Refused."""
        raise BadRequest(NO_LIKELIHOOD)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The conversation as text; without a generation prompt, its last message is left open."""
        template = self._template()
        for message in chat_history:
            spelled = self._text().spelled_specials(message["content"])
            if spelled:
                raise BadRequest(
                    f"A message spells the special token {spelled[0]}, which the model would take "
                    "for the real one. Change the task's data."
                )
        if add_generation_prompt:
            return template.render([chat_history])[0]
        *before, last = chat_history
        return template.render([before])[0] + last["content"]

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The source of the folder's chat template, for the harness's records."""
        if isinstance(chat_template, str) and chat_template != "default":
            raise BadRequest(
                f"There is no chat template {chat_template!r}: a model folder has one template, "
                "used by --apply_chat_template without a name."
            )
        return self._template().source

    @property
    def tokenizer_name(self) -> str:
        """Tells the prompts of one model from those of another in the harness's cache of requests."""
        name = (
            self._model.name if self._revision is None else f"{self._model.name}@{self._revision}"
        )
        return name.replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """What the harness adds to the configuration in its results."""
        return {
            "archer_version": __version__,
            "archer_method": self._method,
            "archer_settings": self._complete,
            "archer_seed": self._seed,
            "model_device": str(self._device),
            "model_dtype": str(self._model.network.dtype),
            "model_revision": self._revision,
        }

    def _batches(self, requests: Sequence[Instance]) -> list[Batch]:
        """Neighbours that want the same, at most `batch_size` of them."""
        batches: list[Batch] = []
        for kwargs, group in groupby(requests, key=lambda request: request.args[1]):
            wanted, alike = read_kwargs(kwargs), list(group)
            for start in range(0, len(alike), self._batch_size):
                batches.append((wanted, alike[start : start + self._batch_size]))
        return batches

    def _request(self, batch: Batch) -> Request:
        wanted, instances = batch
        return self._model.request(
            [instance.args[0] for instance in instances],
            self._method,
            seed=self._seed,
            chat=False,
            allow_special=True,
            preset=self._preset,
            settings=self._settings | dict(wanted.settings),
        )

    def _decode(self, request: Request, stops: tuple[str, ...]) -> list[str]:
        completions = generate(self._model, request, stop=stops, batch=self._batch_size)
        for done in completions:
            if done.text is None:
                raise ArcherError(f"A response could not be decoded: {done.error}")
        return [done.text or "" for done in completions]

    def _text(self) -> Text:
        if self._model.text is None:
            raise BadRequest(f"{self._model.name!r} has no tokenizer, and the harness sends texts.")
        return self._model.text

    def _template(self) -> ChatTemplate:
        template = self._text().template
        if template is None:
            raise BadRequest(
                f"{self._model.name!r} has no chat template. Leave --apply_chat_template out."
            )
        return template


def _positive(batch_size: int | str) -> int:
    try:
        size = int(batch_size)
    except ValueError:
        size = 0
    if size < 1:
        raise BadRequest(f"The batch size must be a number above 0, not {batch_size!r}.")
    return size
