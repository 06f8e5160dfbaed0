"""Groups of options that commands share, as cyclopts fills them in.

A setting that was not given stays None, so that only given ones reach the method, which refuses what
it does not use.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from archer.cli.whole import MaybeWhole, Whole, whole
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.methods import Method
    from archer.model import Model

MOST_THREADS = 512
"""Far more than help; the libraries below end the process when they get many times as many."""


@Parameter(name="*", group="Model")
@dataclass(frozen=True)
class ModelOptions:
    """Which checkpoint, and where and how it computes."""

    model: str = "pocket"
    """Folder of a checkpoint, or its hub id, such as GSAI-ML/LLaDA-8B-Instruct; pocket is bundled."""
    revision: str | None = None
    """Commit of a hub id."""
    device: str | None = None
    """Such as cpu or cuda:0; the accelerator if there is one."""
    dtype: str | None = None
    """float32, bfloat16, float16 or float64; bfloat16 on an accelerator, else float32."""
    quantize: str | None = None
    """int8 keeps the layers' matrices in eight bits; off."""
    threads: MaybeWhole = None
    """Processor threads; as many as the network is worth: one for small ones."""
    compile: bool = False
    """Run the passes through torch.compile: slow at first, needs a C++ compiler."""

    def load(self) -> Model:
        from archer.model import load

        if self.threads is not None:
            use_threads(self.threads)
        model = load(
            self.model,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            quantize=self.quantize,
            threads=self.threads,
            compiled=self.compile,
        )
        if model.threads is not None:
            use_threads(model.threads)
        return model


@Parameter(name="*", group="Method")
@dataclass(frozen=True)
class MethodOptions:
    """A decoder with its cache, and their settings.  `archer methods` explains them."""

    method: str = "archer"
    """A name, or decoder+cache such as saber+age:4; `archer methods` lists them."""
    preset: str | None = None
    """Settings under a name, such as paper."""
    length: Annotated[
        int | None, Parameter(converter=whole, name=("--length", "--max-new-tokens"))
    ] = None
    """Tokens of the response [default: what the model recommends, else 256]."""
    block: Annotated[int | None, Parameter(converter=whole, name=("--block", "--block-length"))] = (
        None
    )
    """Tokens decoded together [default: the whole response]."""
    steps: MaybeWhole = None
    """Updates over the whole response [default: one per token]."""
    radius: float | None = None
    """Changed tokens after which the prompt is recomputed, or inf [default: 8]."""
    threshold: float | None = None
    """Confidence that a token needs, for decoders with a fixed bar."""
    temperature: float | None = None
    """0 takes the likeliest token [default: 0]."""
    n: MaybeWhole = None
    """Tokens placed per update at least [default: 2]."""
    mu: MaybeWhole = None
    """Of this many tokens placed, one is taken back [default: 2]."""
    set: Annotated[tuple[str, ...], Parameter(name="--set")] = ()
    """NAME=VALUE, any other setting; may be repeated."""

    def settings(self) -> dict[str, Any]:
        """The settings that were given."""
        flags = ("length", "block", "steps", "radius", "threshold", "temperature", "n", "mu")
        given = {name: getattr(self, name) for name in flags if getattr(self, name) is not None}
        for entry in self.set:
            name, equals, value = entry.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or not name:
                raise BadRequest(
                    f"--set takes NAME=VALUE, such as --set watch=placed, not {entry!r}."
                )
            if name in given:
                raise BadRequest(f"The setting {name!r} is given twice.")
            given[name] = _value(value.strip())
        return given

    def build(self) -> Method:
        """The method; refuses whatever can be refused without a model."""
        from archer.methods import build

        return build(self.method, self.settings(), self.preset)


@Parameter(name="*", group="Prompt")
@dataclass(frozen=True)
class PromptOptions:
    """Prompts that are not arguments, and how texts are read."""

    prompt_ids: Annotated[tuple[str, ...], Parameter(name="--prompt-ids")] = ()
    """Token ids such as 5,7,9; repeat for several prompts."""
    prompt_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """A UTF-8 text file with one prompt; - reads stdin."""
    raw: bool = False
    """Take texts as they are, without the chat template."""
    allow_special: bool = False
    """Let texts spell special tokens."""
    seed: Whole = 0
    """Which noise, at a temperature above 0."""


@Parameter(name="*", group="Output")
@dataclass(frozen=True)
class OutputOptions:
    """What is shown and written."""

    json: bool = False
    """Print one JSON object instead of text."""
    plain: bool = False
    """Print the text only, without the live view."""
    quiet: bool = False
    """As --plain, and without warnings."""
    trace: Path | None = None
    """Write every update to this file, one JSON object per line."""


def use_threads(count: int) -> None:
    """How many processor threads torch computes with."""
    import torch

    if not 1 <= count <= MOST_THREADS:
        raise BadRequest(
            f"--threads must be a whole number, at least 1 and at most {MOST_THREADS}, not {count}."
        )
    torch.set_num_threads(count)


def _value(text: str) -> Any:
    """A number, true, false or null as such, everything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
