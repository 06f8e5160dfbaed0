"""Which method decodes: the one place where a method is resolved and built.

A method is given as a name or an object, with settings and a preset.  Settings that are left out get their
defaults; the default length is what the model recommends.

Other packages may add decoders and policies.  A setting that a method does not use is refused, never ignored;
so is a pair that cannot work.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic import ValidationError

from archer.decoders.base import Attention, Decoder, Rule
from archer.decoders.length import Appended, Sized
from archer.decoders.wrappers import EndOfText, Guided
from archer.errors import BadRequest, cause_of, meant, quoted
from archer.methods import compatibility
from archer.methods.catalogue import (
    COMMON,
    DEFAULT_METHOD,
    PAPER_METHOD,
    PRESETS,
    SIZING,
    Part,
    Shared,
)
from archer.methods.own_files import digests
from archer.methods.settings import (
    DECODER_VERBS,
    DECODERS,
    POLICIES,
    POLICY_VERBS,
    TRUE_OR_FALSE,
    Settings,
    allowed,
    described,
    missing,
)
from archer.methods.spelling import (
    OWN_FILE,
    all_settings,
    canonical,
    cut_from,
    habit,
    implied,
    owners,
    says_length,
    settings_taken,
    spelled,
    spelled_out,
)
from archer.passes.bounds import UPDATES_BESIDE, UPDATES_PER_TOKEN
from archer.policies.base import Policy
from archer.policies.prompt_cache import Eager

RECOMMENDED = 0
"""The length of a method that names none: what the model recommends."""


@dataclass(frozen=True)
class Recommended:
    """What a model recommends where nothing is said; None where it recommends nothing."""

    length: int | None = None
    method: str | None = None
    """What it was released with."""
    block: int | None = None
    """Columns per block of its attention, for decoders whose block is the attention rule."""


NO_ADVICE = Recommended()


@dataclass(frozen=True)
class Method:
    """A decoder and a policy with all their settings; can be given wherever a method's name can.

    Each is an object or a name: `Method(MyDecoder(), "archer:8")`, `Method("saber", MyPolicy())`.
    """

    decoder: Decoder[Any]
    policy: Policy = field(default_factory=Eager)
    length: int = RECOMMENDED
    name: str = ""
    """If left out, made of the names of the two classes."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All its settings as plain data, including defaults; `build` makes the same method of them."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files that its parts were brought from, with their sha256."""

    @property
    def first_stop(self) -> int | None:
        """Columns of a response before its first pass; None where it begins at its length."""
        kind = self.settings.get("canvas", "fixed")
        if kind == "fixed":
            return None
        first: int = self.settings["start_length" if kind == "auto" else "block"]
        return min(first, self.length)

    if TYPE_CHECKING:  # a dataclass cannot say that a field takes more than it holds

        def __init__(
            self,
            decoder: Decoder[Any] | Rule[Any] | str,
            policy: Policy | str = ...,
            length: int = ...,
            name: str = ...,
            settings: Mapping[str, Any] = ...,
            files: Mapping[str, str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        names: list[str] = []
        own: dict[str, Any] = {}
        for role, table, what in (
            ("decoder", DECODERS, "decoder"),
            ("policy", POLICIES, "cache policy"),
        ):
            part, fixed = getattr(self, role), frozenset[str]()
            if isinstance(part, str):
                name, given = cut_from(part, part, table, what)
                part, fixed = _make(table[name], given), frozenset(table[name].fixed)
                object.__setattr__(self, role, part)
            else:
                name = _kebab(type(part))
            names.append(name)
            if _has_fields(part):
                own |= {k: v for k, v in _values(part).items() if k not in fixed}
        if not self.name:
            object.__setattr__(self, "name", "+".join(names))
        if not self.settings:
            length = {"length": self.length} if self.length != RECOMMENDED else {}
            object.__setattr__(self, "settings", length | own)


def adopt(
    method: Method,
    settings: Mapping[str, Any],
    preset: str | None = None,
    recommended: Recommended = NO_ADVICE,
) -> Method:
    """A method that the user put together, checked as `build` does; `length`, or the `recommended` one."""
    rest = canonical(settings)
    usual = recommended.length or Shared.length
    length = rest.pop("length", method.length if method.length != RECOMMENDED else usual)
    if rest or preset is not None:
        what = "a preset" if preset is not None else f"the setting {next(iter(rest))!r}"
        raise BadRequest(
            f"The method {method.name!r} is given with its settings already; it cannot be given {what} "
            "as well. Give settings to its decoder and its policy, or give its name."
        )
    for part, verbs, what in (
        (method.decoder, DECODER_VERBS, "decoder"),
        (method.policy, POLICY_VERBS, "policy"),
    ):
        absent = missing(part, verbs)
        if absent or isinstance(part, type):
            reason = f"has no {', '.join(absent)}" if absent else "is a class: make one of it"
            raise BadRequest(f"The {what} of the method {method.name!r} {reason}.")
    shared = _make(COMMON, {"length": length})
    names = (_kebab(type(method.decoder)), _kebab(type(method.policy)))
    _check_rule(method.decoder, shared.length)
    compatibility.check(method.decoder, method.policy, names, shared.length)
    if shared.length == method.length:
        return method
    complete = {"length": shared.length, **method.settings} | {"length": shared.length}
    return dataclasses.replace(method, length=shared.length, settings=complete)


def settings(method: str = DEFAULT_METHOD) -> Settings:
    """Every setting that a method takes, with its default, its range and its meaning."""
    decoder, policy, _ = spelled(method)
    settings = Settings()
    for part in (COMMON, DECODERS[decoder], POLICIES[policy]):
        settings |= described(part)
    for name, value in implied(method).items():
        settings[name] = dataclasses.replace(settings[name], default=value)
    return settings


MethodLike: TypeAlias = str | Method | Decoder[Any] | Rule[Any]
"""Whatever may be given as a method: a name, a method, or a decoder, which then has no cache.

`Rule` is a `Decoder`, which not every type checker sees.
"""


def resolve(
    method: MethodLike | None,
    settings: Mapping[str, Any],
    preset: str | None = None,
    recommended: Recommended = NO_ADVICE,
) -> Method:
    """The method that is meant; `recommended` says what settings and preset leave open."""
    if method is not None and not isinstance(method, str | Method):
        method = _of_decoder(method)
    if isinstance(method, Method):
        return adopt(method, settings, preset, recommended)
    values = spelled_out(settings)
    if recommended.length is not None and preset is None and not says_length(values):
        values["length"] = recommended.length
    name = method or default_method(preset, settings, recommended)
    if recommended.block is not None and _takes_the_models_block(name, settings):
        values["block"] = recommended.block
    return build(name, values, preset)


def _of_decoder(given: object) -> Method:
    """A decoder by itself; refuses what is none."""
    if isinstance(given, type):
        raise BadRequest(f"{given.__name__} is a class: make one of it, {given.__name__}(...).")
    absent = missing(given, DECODER_VERBS)
    if absent:
        raise BadRequest(
            "A method is a name, a Method or a decoder, and "
            f"{quoted(given)} is no decoder: it has no {', '.join(absent)}."
        )
    return Method(cast("Decoder[Any]", given))


def _takes_the_models_block(name: str, settings: Mapping[str, Any]) -> bool:
    """Its block is how the model attends, and nobody has named one."""
    decoder, _, given = spelled(name)
    part = DECODERS[decoder]
    open_yet = "block" in part.settings and "block" not in given | canonical(settings)
    return open_yet and getattr(part.make, "attention", None) is Attention.BLOCK_CAUSAL


def default_method(
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    recommended: Recommended = NO_ADVICE,
) -> str:
    """What decodes where nobody names a method; a named preset or a radius selects the paper's."""
    radius = (settings or {}).get("radius")
    if preset is not None or radius is not None:
        return PAPER_METHOD
    return recommended.method or DEFAULT_METHOD


@dataclass(frozen=True)
class Choice:
    """A method as it was asked for: plain data, for whoever hands it on before a model is at hand."""

    method: str = ""
    """A name; what the model recommends where it is empty."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    """A name of the catalogue."""

    def check(self) -> None:
        """Refuse what can be refused without a model; what an empty name means, a model has to say.

        Unless a preset or a radius selects the paper's method, or no method has such a setting.
        """
        unknown = canonical(spelled_out(self.settings)).keys() - all_settings() - COMMON.settings
        papers = default_method(self.preset, self.settings) != DEFAULT_METHOD
        if self.method or papers or unknown:
            self.build()

    def named(self, recommended: Recommended = NO_ADVICE) -> str:
        """The name of the method that decodes a model with these recommendations."""
        return self.method or default_method(self.preset, self.settings, recommended)

    def build(self, recommended: Recommended = NO_ADVICE) -> Method:
        """The method; refuses whatever can be refused without a model."""
        return resolve(self.method, self.settings, self.preset, recommended)


def build(name: str, settings: Mapping[str, Any], preset: str | None = None) -> Method:
    """Look `name` up and make its parts; refuses unknown names, unused settings and values out of range."""
    decoder_name, policy_name, given = spelled(name)
    decoder, policy = DECODERS[decoder_name], POLICIES[policy_name]
    accepted = settings_taken(name)
    chosen = canonical(spelled_out(settings))
    for key in chosen:
        if key not in accepted:
            raise BadRequest(
                f"The method {name!r} does not use the setting {quoted(key)}."
                f"{owners(key) or habit(key) or meant(key, accepted)} "
                f"It takes: {', '.join(sorted(accepted))}."
            )
    for key in given:
        if key in chosen:
            raise BadRequest(
                f"{key!r} is given twice, in the method's name {name!r} and as a setting."
            )
    kept = implied(name)
    usual = {**kept, **_preset(preset)}
    if chosen.get("block") is not None and kept.get("canvas") == "auto":
        usual["canvas"] = Shared.canvas
    values = {k: v for k, v in usual.items() if k in accepted} | chosen | given
    parts = [_make(part, values) for part in (COMMON, decoder, policy)]
    shared, rule, cache = parts
    _check_rule(rule, shared.length)
    compatibility.check(rule, cache, (decoder_name, policy_name), shared.length)
    complete = {k: v for part in parts for k, v in asdict(part).items() if k in accepted}
    if shared.canvas == "fixed":
        _refuse_sizing(chosen)
        unsaid = set(SIZING) - kept.keys()
        complete = {k: v for k, v in complete.items() if k not in unsaid}
    else:
        compatibility.check_canvas(rule, cache, (decoder_name, policy_name), shared.canvas)
    files = digests(name) if OWN_FILE in name else {}
    return Method(_wrapped(rule, shared), cache, shared.length, name, complete, files)


def _check_rule(decoder: Decoder[Any], length: int) -> None:
    """What the rule itself refuses, and more updates than a response of this length is worth."""
    decoder.check(length)
    updates, most = decoder.limit(length), UPDATES_PER_TOKEN * length + UPDATES_BESIDE
    if updates > most:
        raise BadRequest(
            f"These settings allow {updates:.4g} updates for a response of {length} tokens, and the most is "
            f"{most}. Choose fewer steps, or a longer response."
        )


def _refuse_sizing(chosen: Mapping[str, Any]) -> None:
    """Settings of a canvas that follows the answer mean nothing where the length is fixed."""
    for name in SIZING:
        if name in chosen and name != "canvas":
            raise BadRequest(
                f"{name} says how a canvas follows its answer, and the length is fixed. "
                'Say length="auto" as well, or leave it out.'
            )


def _wrapped(decoder: Decoder[Any], shared: Shared) -> Decoder[Any]:
    if shared.canvas == "auto":
        sizes = {name: getattr(shared, name) for name in SIZING if name != "canvas"}
        decoder = Sized(decoder, **sizes)
    elif shared.canvas == "append":
        decoder = Appended(decoder)
    if shared.eos != "none":
        decoder = EndOfText(decoder, shared.eos)
    return Guided(decoder, shared.guidance) if shared.guidance > 0 else decoder


def _preset(name: object) -> Mapping[str, Any]:
    if name is None:
        return {}
    if not isinstance(name, str) or name not in PRESETS:
        raise BadRequest(
            f"There is no preset {quoted(name)}.{meant(str(name), PRESETS)} Presets: {', '.join(PRESETS)}."
        )
    return PRESETS[name]


def _make(part: Part, values: Mapping[str, Any]) -> Any:
    own = part.settings
    for name, value in values.items():
        if name in own and isinstance(value, bool) and allowed(part, name) != TRUE_OR_FALSE:
            raise BadRequest(f"{name} must be {allowed(part, name)}, not {value}.")
    try:
        return part.make(**{k: v for k, v in values.items() if k in own}, **part.fixed)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # what a part says of all its settings
            raise BadRequest(
                f"These settings do not go together: {cause_of(first.get('ctx', {}).get('error', error))}."
            ) from error
        name = str(first["loc"][0])
        raise BadRequest(
            f"{name} must be {allowed(part, name)}, not {quoted(first['input'])}."
        ) from error


def _kebab(kind: type) -> str:
    """BlockArcher -> block-archer."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()


def _has_fields(part: object) -> bool:
    return dataclasses.is_dataclass(part)


def _values(part: Any) -> dict[str, Any]:
    return {item.name: getattr(part, item.name) for item in fields(part)}
