"""A loaded model as users see it: `load` it, then `generate` or `stream`.

It joins the loader, the text codec, the methods and the loop; each of them can be used without it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, Unpack, cast, get_args

import torch
from tokenizers import Tokenizer
from torch import Tensor

from archer.engine.engine import Engine, Engines
from archer.engine.generate import Stream, generate
from archer.engine.job import as_stops
from archer.engine.turns import Running
from archer.errors import BadRequest, quoted
from archer.loading.checkpoint import Folder
from archer.loading.fingerprint import fingerprint
from archer.loading.hub import FETCHED
from archer.loading.new_weights import Named, replaced, tensors_in
from archer.loading.source import Source
from archer.loading.text.text import Text, read_text
from archer.machine.heap import keep_freed_memory
from archer.machine.threads import check_threads, fitting
from archer.methods.build import Method, MethodLike
from archer.methods.spelling import plain
from archer.network.network import Transformer
from archer.request.fill import GAP, Fill
from archer.request.given import as_fills
from archer.request.options import GenerateOptions, InfillOptions, OnError, StreamOptions
from archer.request.prepare import encoded, prepare
from archer.request.request import (
    Faults,
    OnePrompt,
    Prompts,
    Request,
    as_list,
    checked_seed,
    listed,
)
from archer.results.completion import Completion
from archer.results.language import Language
from archer.results.notebook import Trace, of_completions
from archer.results.provenance import LOADED_BY, Recipe
from archer.results.score import By, TextScore
from archer.score.choices import choose
from archer.score.score import score, scored_pairs, scoring
from archer.structure.token_automaton import Vocabulary

P = ParamSpec("P")


class Model:
    """A loaded model: `generate` completes prompts, `stream` shows updates, `engine` serves many requests.

    Made by `archer.load`.  It holds the network, what the checkpoint's folder says, and its tokenizer, if
    any.
    """

    def __init__(
        self, source: Source, folder: Folder, network: Transformer, text: Text | None
    ) -> None:
        self.source = source
        """How it was loaded, so that another process can load the same model."""
        self.name = source.name
        on_processor = network.device.type == "cpu"
        if on_processor:
            keep_freed_memory()
        fits = fitting(folder.parameters, source.shards) if on_processor else None
        self.threads = source.threads or fits
        self.folder = folder
        self.network = network
        self.text = text
        self.engines = Engines()
        self.weights_version = 0
        """How often the weights were changed in place."""
        self.weights_digest = ""
        """Of all that they were changed by; empty as long as they are those of the files."""
        own = frozenset(folder.eos)
        self._name = "+".join((source.name, *(f"adapter-{each[:8]}" for each in folder.adapters)))
        self.language = Language(
            model=self._name,
            mask=folder.mask,
            eos=folder.eos,
            ends=own if text is None else own | text.end_ids,
            text=None if text is None else replace(text, template=None),
        )
        self._spelled: Vocabulary | None = None

    @classmethod
    def open(cls, source: Source, check: Callable[[Model], object] | None = None) -> Model:
        """Load the model with its weights; `check` sees its outline before, and may refuse."""
        source.place()
        folder = source.folder()
        text = read_text(folder)
        if check is not None:
            check(cls(source, folder, source.outline(folder), text))
        if source.shards == 1:
            return cls(source, folder, source.network(folder), text)
        from archer.shards.start import network_of  # brings torch.distributed along

        return cls(source, folder, network_of(folder, source), text)

    @classmethod
    def outline(cls, source: Source) -> Model:
        """Without its weights: it encodes and checks requests that others carry out.

        Its network is on torch's `meta` device and cannot compute.  The device, which this machine need not
        have, only decides the dtype.
        """
        folder = source.folder()
        return cls(source, folder, source.outline(folder), read_text(folder))

    def generate(
        self,
        prompts: Prompts,
        method: MethodLike | None = None,
        *,
        n: int = 1,
        stop: str | Sequence[str] = (),
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = False,
        on_error: OnError = "raise",
        **options: Unpack[StreamOptions],
    ) -> list[Completion]:
        """Complete every prompt and return the completions in order, `n` for each prompt.

        Any number of prompts runs in bounded memory: at most `batch` rows are decoded at a time, and they
        hold at most `memory` bytes of keys and values (by default half of what is free).  A `stop` string
        cuts the text where it begins.  `progress` shows a bar.  At temperature 0 the samples of a prompt
        are equal.  With `on_error="return"` a prompt that is refused or fails does not end the others: its
        completions have `finish_reason == "error"` and say why.  Other options are those of `request`.
        """
        if on_error not in get_args(OnError):
            raise BadRequest(f'on_error is "raise" or "return", not {quoted(on_error)}.')
        entries, kept = listed(prompts), on_error == "return"
        faults = Faults(len(entries), kept=kept)
        request, places = prepare(self, entries, method, faults, **options)
        done = generate(
            self,
            request,
            n=n,
            stop=as_stops(stop),
            batch=batch,
            memory=memory,
            progress=progress,
            keeps_errors=kept,
        )
        made = {at: done[row * n : (row + 1) * n] for row, at in enumerate(places)}
        made |= {at: [Completion.failed(error)] * n for at, error in faults.errors.items()}
        return [each for at in range(len(entries)) for each in made[at]]

    def engine(self, **options: Any) -> Engine:
        """An engine that takes requests while others run, each with its own method; see `Engine`."""
        return Engine(self, **options)

    def stream(
        self,
        prompts: Prompts,
        method: MethodLike | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream:
        """Decode as `generate` does, yielding every update; see `Stream` for several prompts."""
        return Stream(self, self.request(prompts, method, **options))

    def record(
        self,
        prompts: Prompts,
        method: MethodLike | None = None,
        **options: Unpack[StreamOptions],
    ) -> Trace:
        """Decode as `generate` does and return a trace of all updates; a notebook shows it as a player."""
        stream = self.stream(prompts, method, **options)
        return of_completions(stream.request, stream.finish())

    @cached_property
    def digest(self) -> str:
        """Identifies the checkpoint.

        It is computed from its config, the layout of its weights and a sample of them.
        """
        return fingerprint(self.folder)

    def provenance(self, request: Request, sample: int, stop: Sequence[str] = ()) -> Recipe:
        """How a sample of a request comes about."""
        loaded = {
            name: value
            for name in LOADED_BY
            if (value := getattr(self.source, name)) not in (None, ())
        }
        dtype = str(self.dtype).removeprefix("torch.")
        method = request.method
        return Recipe(
            method=method.name,
            settings=plain(method.settings),
            files=method.files,
            seed=request.seed,
            sample=sample,
            model=self.name,
            digest=self.digest if not self.weights_version else self._changed_digest,
            dtype=dtype,
            loaded=loaded,
            structure=request.structure,
            stop=tuple(stop),
        )

    @property
    def _changed_digest(self) -> str:
        return f"{self.digest}+weights-{self.weights_version}-{self.weights_digest[:12]}"

    @property
    def end_ids(self) -> frozenset[int]:
        """Token ids that end a response."""
        return self.language.ends

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that the model computes in."""
        return self.network.dtype

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer from the folder, or None if there is none."""
        return None if self.text is None else self.text.tokenizer

    def close(self) -> None:
        """End the processes of the other shards, if there are any.  The model cannot be used afterwards."""
        if self.network.all_shards is not None:
            self.network.all_shards.close()

    def update_weights(
        self,
        weights: Named | Mapping[str, Tensor] | Path | str,
        *,
        running: Running = "finish",
        timeout: float | None = None,
    ) -> int:
        """Change weights in place, and return the new version, which completions name from then on.

        `weights` are pairs of a name and a tensor, or a folder of the same architecture and shape.  Names and
        shapes are those of the checkpoint; tensors that are left out stay as they are.  They are fused,
        quantised and cut into shards as loading does it, and adapters that were merged are merged again, so
        the model then computes, bit for bit, what it would if it were loaded with them.  If a name, a shape
        or a number is not right, nothing is changed.

        No completion is a mixture of versions.  What runs is decoded to its end first, for at most `timeout`
        seconds, while what waits goes on waiting; with running="restart" it begins anew with the new weights,
        unless somebody has been watching it form.
        """
        if isinstance(weights, str | Path):
            with tensors_in(Path(weights), self.folder) as named:
                return self.update_weights(named, running=running, timeout=timeout)
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        with self.engines.held(running, timeout):
            self.weights_digest = replaced(self.network, self.folder, pairs, self.weights_digest)
            self.weights_version += 1
            name = f"{self._name}+weights-{self.weights_version}"
            self.language = replace(self.language, model=name)
        return self.weights_version

    def save(self, folder: Path | str) -> Path:
        """Copy the checkpoint's files into a new folder, exactly as they were read.

        Weights keep the dtype in which they are stored, whatever dtype this model computes in.
        """
        if self.weights_version:
            raise BadRequest(
                "The weights were changed in place, so the checkpoint's files are not what this model "
                "computes with. Save the tensors where they come from."
            )
        target = Path(folder)
        if target.exists():
            raise BadRequest(f"{target} exists already. Name a new folder.")
        target.mkdir(parents=True)
        for path in sorted(self.folder.path.iterdir()):
            if path.is_file() and any(path.match(pattern) for pattern in FETCHED):
                shutil.copyfile(path, target / path.name)
        return target

    def __repr__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        size = f"{self.folder.parameters / 1e6:,.1f} M parameters"
        eight = f" with {self.source.quantize} weights" if self.source.quantize else ""
        where = f"{kind}{eight} on {self.device}"
        return f"Model({self.name!r}, {self.folder.architecture.name}, {size}, {where})"

    def infill(
        self,
        prefix: Prompts,
        suffix: str | Sequence[Any],
        method: MethodLike | None = None,
        **options: Unpack[InfillOptions],
    ) -> list[Completion]:
        """Write what stands between two texts; `text` of a completion is that, and `whole` all three.

        Texts are used as they are, without the chat template.  For several pairs give two lists.  `length`
        is the number of tokens between the texts, or "auto".  Other options are those of `generate`.
        """
        options.setdefault("chat", False)
        return self.generate(prefix, method, suffix=suffix, **options)

    def fill(
        self,
        texts: str | Fill | Sequence[Any],
        method: MethodLike | None = None,
        *,
        gap: str = GAP,
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]:
        """Fill the gaps of a text, or of each text of a list, wherever it holds the mark `gap`.

        `length` is the number of tokens of each gap, one number for all of them or a list with one for each;
        "auto", which is the default, leaves it to the model, up to `max_length`.
        The completion's `gaps` are the texts that were written, `whole` is the text with its gaps filled.
        Token ids with None for those to be written do as well.  Other options are those of `generate`.
        """
        return self.generate(as_fills(texts, gap), method, **options)

    def score(
        self,
        prompts: Prompts,
        texts: str | Sequence[Any],
        by: By = "elbo",
        *,
        draws: int | None = None,
        seed: int = 0,
        cached: bool = False,
        prompt_mask: float | None = None,
        method: str | Method | None = None,
        preset: str | None = None,
        chat: bool = True,
        allow_special: bool = False,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> list[TextScore]:
        """How probable the model finds each text as the answer to its prompt, in nats.

        One prompt may go with many texts, and one text with many prompts.  `by` is the estimator:

        - "elbo": LLaDA's Monte Carlo bound; the expectation is a lower bound of a log-likelihood.
        - "one-step": d1's, one look at a text of masks, `prompt_mask` of the prompt masked as well (0.15).
        - "coupled": coupled-GRPO's, three looks per draw.
        - "confidence": iLLaDA's, for ranking answers: tokens are revealed, the most probable one first.
        - "replay": exact for the decoder named by `method`, `preset` and `settings`, by default entropy at
          temperature 1; refused for decoders under which a text has no probability that can be computed.

        `draws` and `seed` are for the first three.  `cached` computes the prompt once for all looks at a
        text, which is cheaper and not quite the same.  See "Likelihood and rollouts" in the documentation for
        what each of them means.
        """
        seed = checked_seed(seed)
        how = scoring(
            self,
            by,
            draws,
            seed,
            cached=cached,
            prompt_mask=prompt_mask,
            method=method,
            preset=preset,
            settings=settings,
        )
        pairs = scored_pairs(self, prompts, texts, chat=chat, allow_special=allow_special)
        return score(self, pairs, how, batch=batch, memory=memory, progress=progress)

    def request(
        self,
        prompts: Prompts,
        method: MethodLike | None = None,
        **options: Unpack[StreamOptions],
    ) -> Request:
        """Check everything that can be checked, encode the prompts, and compute nothing.

        A prompt is a text (a user's message), a list of messages with `role` and `content`, a list of token
        ids, or a `Fill`, a text with gaps.  Pass a list of these for several prompts.

        `prefill` is how the answer begins; where it holds the mark `gap`, it is the answer with gaps to be
        filled.  `suffix` is what stands behind the response.  Each is one for all prompts, or a list.  The
        length is then that of a gap, or a list with one for each.  The tokens next to a gap may be written
        anew where the cut is inside a word, unless `healing` is False; the text around it stays as it is.

        `curve` is what `archer study gap-length` fits to a model, for lengths that are searched for.

        `method` is a name, a `Method` or a decoder.  Without it the model's own method decodes, or
        `archer-doubt` if it has none; a radius or one of the paper's presets selects `archer`.  Other
        keywords are settings of the method, such as length, block, steps, radius, threshold and temperature;
        `archer.settings("saber")` lists them.
        `settings` takes the same under the names they are recorded by, for names that mean something else as
        a keyword, and for those of a method of your own: `n` counts samples, so Saber's n is `least=4` or
        `settings={"n": 4}`.

        `schema` (a JSON schema or a Pydantic model), `regex` or `choices` say what the answer has to be; it
        is guaranteed to be that.  They need the extra `structured`.

        The default length is what the model's folder recommends, else 256.  `seed` is 0 where it is left out.
        `chat=False` uses texts as they are, without the chat template.
        """
        entries = listed(prompts)
        request, _ = prepare(self, entries, method, Faults(len(entries)), **options)
        return request

    def choose(
        self, prompts: Prompts, options: Sequence[str], *, chat: bool = True
    ) -> list[dict[str, float]]:
        """How likely each of some answers is, for each prompt, from one pass over masks: nothing is written.

        An answer counts with its end and with all ways to cut it into tokens; but what all of them begin with
        is given, cut as the tokenizer cuts it, and only what follows counts.  Shares add up to 1.
        """
        return choose(self, prompts, options, chat=chat)

    def spelling(self) -> Vocabulary:
        """The tokens of the model as they spell texts; refuses a model whose tokens do not."""
        if self.text is None or self.text.pieces is None:
            raise BadRequest(
                f"The tokens of {self.name!r} have no bytes of their own, so a schema, a regular expression "
                "or choices cannot be kept."
            )
        if self._spelled is None:
            pieces = self.text.pieces
            spelled = {id: pieces.spelled[id] for id in pieces.ordinary if id != self.folder.mask}
            ends = {*self.language.ends, *self.language.eos}
            self._spelled = Vocabulary(spelled, ends, self.folder.shape.vocabulary)
        return self._spelled

    def encode(
        self, prompt: OnePrompt, chat: bool = True, allow_special: bool = False
    ) -> list[int]:
        """The token ids of a prompt; texts and messages go through template and tokenizer."""
        entries = as_list(prompt)
        if len(entries) != 1:
            raise BadRequest(f"encode takes one prompt, not {len(entries)}. Encode each by itself.")
        (ids,) = encoded(entries, self.name, self.text, chat=chat, allow_special=allow_special)
        return ids


def _loads_as(make: Callable[P, Source]) -> Callable[[Callable[..., Model]], Callable[P, Model]]:
    """Have a function take what `Source` takes, for type checkers and for `help`."""

    def wrap(function: Callable[..., Model]) -> Callable[P, Model]:
        function.__signature__ = signature(make)  # type: ignore[attr-defined]
        return cast("Callable[P, Model]", function)

    return wrap


@_loads_as(Source)
def load(*model: str | Path, **how: Any) -> Model:
    """Load a checkpoint from a folder or from the hub; `how` are the fields of `loading.source.Source`.

    `device` defaults to the accelerator if there is one; `dtype` to bfloat16 there and to float32 on a CPU.
    `quantize="w8a8"` computes the layers in eight bits, and "w8a8-head" the vocabulary head too, which saves
    time and memory on a processor with VNNI and is refused on others; "int8" only stores the feed-forwards
    and experts in eight bits, except in the last layer; it saves memory but no time. `threads` is the number
    of CPU threads; by default it follows the size of the network, unless OMP_NUM_THREADS is set. `compiled`
    compiles the passes with torch.compile, which needs a C++ compiler and is slow at first. `shards` splits
    the network over N processes with a device each, started here or by torchrun. No code from the checkpoint
    is ever run.
    """
    return Model.open(Source(*model, **how))


def load_here(source: Source, check: Callable[[Model], object] | None = None) -> Model:
    """The same for a process that computes nothing else: torch keeps the model's number of threads.

    `check` gets the model without its weights first: what it refuses costs no reading of them.
    """
    if source.threads is not None:
        check_threads(source.threads)
        torch.set_num_threads(source.threads)
    model = Model.open(source, check)
    if model.threads is not None:
        torch.set_num_threads(model.threads)
    return model
