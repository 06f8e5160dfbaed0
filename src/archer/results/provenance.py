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
    from archer.request.request import Form, Request

LOADED_BY = ("revision", "dtype", "quantize", "adapter", "family")
"""What of a model's source decides its numbers, beside its name."""


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

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "method": self.method,
            "settings": dict(self.settings),
            **({"files": dict(self.files)} if self.files else {}),
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
        spelled, settings = _spelled(request.method)
        asked = [_prompt(prompt), spelled, f"seed={self.seed}"]
        asked += [f"n={self.sample + 1}"] if self.sample else []
        asked += [f"settings={settings!r}"] if settings else []
        return (
            f"model = archer.load({loading})  # {self.digest}\n"
            f"done = model.generate({', '.join(asked)})[{self.sample}]"
        )


def _spelled(method: Method) -> tuple[str, Mapping[str, Any]]:
    """A method as an argument and its settings; by its objects, and without any, if it has no name."""
    settings = plain(method.settings)
    try:
        name = in_full(method.name)
        named = build(name, settings)
        if (named.decoder, named.policy) == (method.decoder, method.policy):
            return repr(name), settings
    except BadRequest:
        pass
    return f"archer.Method({method.decoder!r}, {method.policy!r}, {method.length})", {}


def _prompt(form: Form) -> str:
    """As ids; a text whose cuts were healed by its parts, since ids do not say what may stand in its gaps."""
    if form.given is None:
        return repr(list(form.prefix))
    if form.allowed():
        return f"archer.Fill({form.parts!r}, length={list(form.lengths)!r})"
    return f"archer.Fill.of_ids({[*form.prefix, *form.given]!r})"
