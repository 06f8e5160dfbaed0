"""Groups of options that commands share; a setting that was not given stays None and reaches no method."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from cyclopts import Parameter

from archer.cli.messages import loading
from archer.cli.numbers import MaybeWhole, Whole, canvas_length, whole
from archer.errors import BadRequest, extra
from archer.loading.source import Device, Dtype, Source  # noqa: F401 - the parser reads the names here

if TYPE_CHECKING:
    from archer.methods.build import Choice
    from archer.model import Model

SERVE = ("fastapi", "uvicorn", "prometheus_client")
"""What the extra `serve` brings."""
DataFolder = Annotated[
    Path | None,
    Parameter(
        help="Folder with the data files [default: data in the folder ARCHER_SHARED, else downloaded]."
    ),
]
Unconfined = Annotated[
    bool, Parameter(help="Run programs even if this machine cannot confine them.")
]


@Parameter(name="*", group="Model")
@dataclass(frozen=True)
class ModelOptions(Source):
    """Which checkpoint, and where and how it runs."""

    model: str = "pocket"
    threads: MaybeWhole = None
    compiled: Annotated[bool, Parameter(name="--compile")] = False
    shards: Whole = 1
    adapter: Annotated[tuple[str, ...], Parameter(negative=())] = ()

    def load(self, check: Callable[[Model], object] | None = None) -> Model:
        with loading(self.name):
            from archer.model import load_here

        if self.threads is not None:
            check_threads(self.threads)
        with loading(self.name):
            return load_here(self, check)


DEFAULT_MODEL = ModelOptions()


@Parameter(name="*", group="Method")
@dataclass(frozen=True)
class MethodOptions:
    """A decoder with its cache, and their settings.  `archer methods` explains them."""

    method: str | None = None
    """A name, or decoder+cache such as saber+age:4 (`archer methods` lists them), each also from a file of
    yours, such as ./mine.py:MyDecoder+archer:8 [default: the model's]."""
    preset: str | None = None
    """A named preset, such as paper (which selects archer), or a file written by `archer tune`."""
    length: Annotated[
        int | str | None, Parameter(converter=canvas_length, name=("--length", "--max-new-tokens"))
    ] = None
    """Tokens of the response, or auto to follow the answer [default: what the model recommends, else 256]."""
    block: Annotated[int | None, Parameter(converter=whole, name=("--block", "--block-length"))] = (
        None
    )
    """Tokens decoded together [default: the whole response]."""
    steps: MaybeWhole = None
    """Updates over the whole response [default: one per token]."""
    radius: float | None = None
    """Refresh the prompt after this many changed tokens, or inf [default: 8]; selects archer."""
    threshold: float | None = None
    """Confidence a token needs, for decoders with a fixed threshold."""
    temperature: float | None = None
    """0 takes the likeliest token [default: 0]."""
    least: MaybeWhole = None
    """Place at least this many tokens per update, Saber's n [default: 2]."""
    mu: MaybeWhole = None
    """Take back one token for this many placed [default: 2]."""
    set: Annotated[tuple[str, ...], Parameter(name="--set")] = ()
    """Any other setting, as NAME=VALUE; may be repeated."""

    def settings(self) -> dict[str, Any]:
        """The settings that were given."""
        from archer.methods.spelling import parse_setting

        flags = ("length", "block", "steps", "radius", "threshold", "temperature", "least", "mu")
        given = {name: getattr(self, name) for name in flags if getattr(self, name) is not None}
        for entry in self.set:
            setting = parse_setting(entry)
            if setting is None:
                raise BadRequest(
                    f"--set takes NAME=VALUE, such as --set watch=placed, not {entry!r}."
                )
            if setting[0] in given or (setting[0] == "n" and "least" in given):
                raise BadRequest(f"The setting {setting[0]!r} is given twice.")
            given[setting[0]] = setting[1]
        return given

    def chosen(self) -> Choice:
        """The same with a preset file read; what is given on the command line takes precedence."""
        from archer.methods.build import Choice
        from archer.methods.own_files import bring
        from archer.methods.presets import is_file, open_preset

        bring(self.method)
        if self.preset is None or not is_file(self.preset):
            return Choice(self.method or "", self.settings(), self.preset)
        preset = open_preset(Path(self.preset))
        if self.method not in (None, preset.method):
            raise BadRequest(f"{self.preset} names its method: leave out --method {self.method}.")
        return preset.under(self.settings())


@Parameter(name="*", group="Prompt")
@dataclass(frozen=True)
class PromptOptions:
    """Prompts that are not arguments, and how texts are read."""

    prompt_ids: Annotated[tuple[str, ...], Parameter(name="--prompt-ids")] = ()
    """Token ids such as 5,7,9; repeat for several prompts."""
    prompt_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """A UTF-8 text file with one prompt; - reads stdin."""
    messages: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """A JSON file with one chat, a list of {"role": ..., "content": ...}; - reads stdin."""
    suffix: str | None = None
    """Text that stands behind the answer, which fills the gap between the two."""
    schema: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """File with a JSON schema that the answer must match; - reads stdin."""
    regex: str | None = None
    """A regular expression that the whole answer has to match."""
    choices: Annotated[tuple[str, ...], Parameter(name="--choices")] = ()
    """A text that the answer may be; repeat for several."""
    raw: bool = False
    """Use texts as they are, without the chat template."""
    allow_special: bool = False
    """Allow texts to spell out special tokens."""
    seed: Whole = 0
    """Seed of the noise at a temperature above 0."""
    samples: Annotated[int, Parameter(converter=whole, name=("--samples", "--n"))] = 1
    """Answers to each prompt; they differ at a temperature above 0."""


@Parameter(name="*", group="Output")
@dataclass(frozen=True)
class OutputOptions:
    """What is shown and written."""

    json: bool = False
    """Print one JSON object instead of text."""
    plain: bool = False
    """Print only the text, without the live view."""
    quiet: bool = False
    """Like --plain, and without warnings."""
    trace: Path | None = None
    """Write every update to this file, one JSON object per line."""
    out: Path | None = None
    """Write every answer to this file, one JSON object per line, with how it was made."""


def require(what: str, modules: Sequence[str], name: str) -> None:
    """Refuse what needs modules of an extra that are not installed; nothing is imported."""
    missing = [each for each in modules if importlib.util.find_spec(each) is None]
    if missing:
        raise BadRequest(f"{what} needs {', '.join(missing)}: {extra(name)}.")


def use_threads(count: int) -> None:
    """How many processor threads torch computes with."""
    import torch

    check_threads(count)
    torch.set_num_threads(count)


def check_threads(count: int) -> None:
    """Refuse a number of threads that would end the process."""
    from archer.machine import threads

    threads.check_threads(count, "--threads")


def as_typed(options: Any) -> Iterator[str]:
    """The options of a group that are not at their defaults; switches without a value."""
    hints = get_type_hints(type(options), include_extras=True)
    for each in fields(options):
        value = getattr(options, each.name)
        if value == each.default:
            continue
        marks = getattr(hints[each.name], "__metadata__", ())
        names = [name for mark in marks if isinstance(mark, Parameter) for name in mark.name or ()]
        yield names[0] if names else f"--{each.name.replace('_', '-')}"
        if value is not True:
            yield str(value)
