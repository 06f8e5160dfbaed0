"""The model `archer` of the lm-evaluation-harness, for tasks that generate and for log-likelihoods."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from archer import __version__
from archer.engine.generate import generate
from archer.errors import ArcherError, BadRequest
from archer.integrations.generation_kwargs import GenerationSettings, first_length, read_kwargs
from archer.loading.text.chat_template import ChatTemplate
from archer.loading.text.text import Text
from archer.methods.build import Choice, resolve
from archer.model import load
from archer.request.request import Request
from archer.results.score import By

GREEDY = "confidence"
"""What says whether a continuation is the greedy one: LLaDA's decoding, one token per update."""
HARNESS_DEFAULT = "cuda:0"
"""The device that the harness names when its user named none; Archer then takes the best there is."""
Batch = tuple[GenerationSettings, Sequence[Instance]]
Pair = tuple[list[int], list[int]]
"""Ids of a context, which is never empty, and of what follows it."""


class ArcherLM(LM):  # type: ignore[misc]  # the harness is not annotated
    """A model and a method as `model_args`; a task's length and temperature go first, none is ignored.

    Log-likelihoods are estimated `by` one of the estimators of `Model.score`, with N `draws`.
    """

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
        by: By = "elbo",
        draws: int | None = None,
        cached: bool = False,
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
        device = None if device == HARNESS_DEFAULT else device
        self._model = load(pretrained, revision=revision, device=device, dtype=dtype)
        chosen = resolve(method, self._settings, preset, self._model.folder.recommended)
        self._method, self._preset, self._seed = chosen.name, preset, seed
        self._complete = dict(chosen.settings)
        self._scoring: dict[str, Any] = {"by": by, "draws": draws, "cached": cached, "seed": seed}
        self._revision = revision
        self._device = self._model.network.device

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Responses cut at their first stop string; every request is checked before the first is decoded."""
        batches = [(batch, self._request(batch)) for batch in self._batches(requests)]
        texts: list[str] = []
        with tqdm(total=len(requests), desc="archer", disable=disable_tqdm) as progress:
            for (options, instances), request in batches:
                decoded = self._decode(request, options.stops)
                for instance, text in zip(instances, decoded, strict=True):
                    texts.append(text)
                    self.cache_hook.add_partial("generate_until", instance.args, text)
                progress.update(len(instances))
        return texts

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Of each continuation, its estimate, and whether greedy decoding of as many tokens writes it."""
        pairs = [self._pair(*request.args) for request in requests]
        answers = list(zip(self._scores(pairs, disable_tqdm), self._greedy(pairs), strict=True))
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return answers

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Of each text, after an end of text; one that is too long is the sum of its windows."""
        most = self._model.folder.shape.max_positions - 1
        windows: list[list[Pair]] = []
        for request in requests:
            ids = self._ids(request.args[0])
            made = get_rolling_token_windows(ids, self._prefix, max_seq_len=most, context_len=1)
            windows.append([make_disjoint_window(each) for each in made])
        every = [pair for own in windows for pair in own]
        scores = iter(self._scores(every, disable_tqdm))
        answers = [sum(next(scores) for _ in own) for own in windows]
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
        return answers

    def _scores(self, pairs: Sequence[Pair], quiet: bool) -> list[float]:
        if not pairs:
            return []
        contexts, texts = zip(*pairs, strict=True)
        scores = self._model.score(contexts, texts, **self._scoring, progress=not quiet)
        return [each.log_likelihood for each in scores]

    def _greedy(self, pairs: Sequence[Pair]) -> list[bool]:
        """Whether each continuation is what is decoded at temperature 0; equal questions are asked once."""
        cases = sorted({(tuple(context), len(text)) for context, text in pairs})
        written: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        for length, group in groupby(sorted(cases, key=lambda each: each[1]), lambda each: each[1]):
            contexts = [context for context, _ in group]
            done = self._model.generate([list(each) for each in contexts], GREEDY, length=length)
            written |= {
                (each, length): answer.tokens for each, answer in zip(contexts, done, strict=True)
            }
        return [written[tuple(context), len(text)] == tuple(text) for context, text in pairs]

    def _pair(self, context: str, continuation: str) -> Pair:
        """As the harness splits them: spaces at the end of the context belong to what follows.

        An empty context is an end of text.
        """
        if not context:
            ids = self._ids(continuation)
            return ([self._prefix], ids) if ids[0] != self._prefix else (ids[:1], ids[1:])
        bare = context.rstrip()
        if not bare:
            return [self._prefix], self._ids(context + continuation)
        before = self._ids(bare)
        return before, self._ids(context + continuation)[len(before) :]

    def _ids(self, text: str) -> list[int]:
        return self._text().encode_raw(text, allow_special=True)

    @property
    def _prefix(self) -> int:
        """What stands before a text that nothing precedes."""
        if not self._model.folder.eos:
            raise BadRequest(
                f"{self._model.name!r} names no end of text, which a text without a context begins with."
            )
        return self._model.folder.eos[0]

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
            "archer_likelihood": dict(self._scoring),
            "model_device": str(self._device),
            "model_dtype": str(self._model.network.dtype),
            "model_revision": self._revision,
        }

    def _batches(self, requests: Sequence[Instance]) -> list[Batch]:
        """Neighbours that want the same, at most `batch_size` of them."""
        batches: list[Batch] = []
        for kwargs, group in groupby(requests, key=lambda request: request.args[1]):
            options, alike = read_kwargs(kwargs), list(group)
            for start in range(0, len(alike), self._batch_size):
                batches.append((options, alike[start : start + self._batch_size]))
        return batches

    def _request(self, batch: Batch) -> Request:
        options, instances = batch
        return self._model.request(
            [instance.args[0] for instance in instances],
            self._method,
            seed=self._seed,
            chat=False,
            allow_special=True,
            preset=self._preset,
            settings=self._settings | dict(options.settings),
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
