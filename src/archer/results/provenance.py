"""How a completion came about: enough to make it again, and to tell two results apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archer import __version__
from archer.errors import BadRequest
from archer.methods.build import Method, build
from archer.methods.spelling import in_full, plain

if TYPE_CHECKING:
    from archer.request.request import Request
    from archer.structure.structures import Structure

LOADED_BY = ("revision", "dtype", "quantize", "adapter", "family")
"""What of a model's source decides its numbers, beside its name."""
READ_AS_USUAL = {"chat": True, "allow_special": False, "healing": True}


@dataclass(frozen=True)
class Recipe:
    """The method with all its settings, the seed and the model of one completion."""

    method: str
    settings: Mapping[str, Any]
    """All of them, defaults included, as JSON can hold them."""
    files: Mapping[str, str]
    """Files of the user's that the method comes from, with their sha256."""
    seed: int
    sample: int
    """Its number among the samples of its prompt, counted from 0."""
    model: str
    """The name it was loaded by."""
    digest: str
    """Of the checkpoint: its config, the layout of its weights and some of them; never of all its bytes."""
    dtype: str
    loaded: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `archer.load` that were not left at their defaults, as far as they decide numbers."""
    structure: Structure | None = None
    """What the answer had to be."""
    stop: tuple[str, ...] = ()
    """Texts that cut the answer."""

    @property
    def _limits(self) -> dict[str, Any]:
        """What was asked of the answer, by the names of `generate`."""
        held: dict[str, Any] = {}
        if self.structure is not None:
            held[self.structure.kind] = self.structure.value
        return {**held, **({"stop": list(self.stop)} if self.stop else {})}

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "method": self.method,
            "settings": dict(self.settings),
            **({"files": dict(self.files)} if self.files else {}),
            **self._limits,
            "seed": self.seed,
            "sample": self.sample,
            "model": self.model,
            "model_digest": self.digest,
            "dtype": self.dtype,
            **{name: value for name, value in self.loaded.items() if name != "dtype"},
            "archer": __version__,
        }

    def code(self, request: Request) -> str:
        """Python that makes the completion of this request again."""
        (prompt,) = request.prompts
        loading = ", ".join(
            [
                repr(self.model),
                *(f"{k}={v!r}" for k, v in {"dtype": self.dtype, **self.loaded}.items()),
            ]
        )
        spelled = _Spelled.of(request.method)
        arguments = [prompt.code(), spelled.argument, f"seed={self.seed}"]
        arguments += [f"n={self.sample + 1}"] if self.sample else []
        options = {k: v for k, v in request.reading.items() if v is not READ_AS_USUAL[k]}
        arguments += [f"{name}={value!r}" for name, value in {**options, **self._limits}.items()]
        arguments += [f"settings={spelled.settings!r}"] if spelled.settings else []
        lines = ["import archer", *spelled.before]
        lines += [f"model = archer.load({loading})  # {self.digest}"]
        listing = "".join(f"    {each},\n" for each in arguments)
        return "\n".join([*lines, f"done = model.generate(\n{listing})[{self.sample}]"])


@dataclass(frozen=True)
class _Spelled:
    """A method as an argument."""

    argument: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """Lines that make its names known."""

    @classmethod
    def of(cls, method: Method) -> _Spelled:
        """By its name and settings; by its objects if it has no name."""
        settings = plain(method.settings)
        try:
            name = in_full(method.name)
            named = build(name, settings)
            if (named.decoder, named.policy) == (method.decoder, method.policy):
                own = (f"archer.bring({name!r})",) if named.files else ()
                return cls(repr(name), settings, own)
        except BadRequest:
            pass
        spelled = f"archer.Method({method.decoder!r}, {method.policy!r}, {method.length})"
        return cls(spelled, {}, tuple(map(_imported, (method.decoder, method.policy))))


def _imported(part: object) -> str:
    from archer import extend

    own = type(part)
    stays = getattr(extend, own.__name__, None) is own
    return f"from {extend.__name__ if stays else own.__module__} import {own.__name__}"
