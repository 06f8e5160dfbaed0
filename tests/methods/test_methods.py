"""Names and settings: every name builds, everything else is refused with a sentence that helps."""

import dataclasses
import itertools
import json
import math
from typing import Any

import pytest

from archer.cli import demo
from archer.decoders.saber import Saber
from archer.errors import BadRequest
from archer.methods.build import (
    Choice,
    Method,
    Recommended,
    build,
    default_method,
    resolve,
    settings,
)
from archer.methods.catalogue import (
    ALIASES,
    COMMON,
    DECODERS,
    DEFAULT_METHOD,
    IMPLIED,
    METHODS,
    POLICIES,
    PRESETS,
    SIZING,
    Part,
)
from archer.methods.presets import Preset
from archer.methods.settings import described
from archer.methods.spelling import parse_setting
from archer.policies.prompt_cache import Age, Archer, Eager

PAIRS = list(itertools.product(DECODERS, POLICIES))


def refusal(name: str, settings: dict[str, Any], preset: str | None = None) -> str:
    with pytest.raises(BadRequest) as caught:
        build(name, settings, preset)
    return str(caught.value)


def settings_of(made: Any) -> dict[str, Any]:
    return {item.name: getattr(made, item.name) for item in dataclasses.fields(made)}


@pytest.mark.parametrize("name", METHODS)
def test_every_name_builds_the_pair_it_stands_for(name: str) -> None:
    spelled, summary = METHODS[name]
    method = build(name, {})
    assert method.name == name
    parts = build(spelled, IMPLIED.get(name, {}))
    assert (method.decoder, method.policy) == (
        parts.decoder,
        parts.policy,
    )
    assert method.length == 256
    assert summary


def built_or_refused(name: str) -> Method | str:
    try:
        return build(name, {})
    except BadRequest as error:
        return str(error)


@pytest.mark.parametrize(("decoder", "policy"), PAIRS)
def test_every_pair_can_be_spelled(decoder: str, policy: str) -> None:
    """Whether the two go together is another question; the name alone must be understood."""
    outcome = built_or_refused(f"{decoder}+{policy}")
    if isinstance(outcome, str):
        assert "There is no method" not in outcome
        return
    assert isinstance(outcome.decoder, DECODERS[decoder].make)
    assert isinstance(outcome.policy, POLICIES[policy].make)
    for part, made in ((DECODERS[decoder], outcome.decoder), (POLICIES[policy], outcome.policy)):
        assert part.fixed.items() <= settings_of(made).items()


def test_a_value_may_follow_a_name() -> None:
    spelled = build("saber+archer:8", {})
    assert (spelled.decoder, spelled.policy) == (Saber(), Archer(8))
    assert build("saber:3+archer:inf", {}).policy == Archer(math.inf)
    assert build("saber:3+archer:inf", {}).decoder == Saber(n=3)
    aged = build("confidence+age:3", {"steps": 64})
    assert aged.policy == Age(3)
    assert aged.settings["steps"] == 64
    assert build("saber", {}).policy == Eager()


def test_no_rollback_is_saber_with_its_switch_off() -> None:
    assert build("no-rollback", {"n": 3}).decoder == Saber(n=3, rollback=False)
    assert "rollback" in refusal("no-rollback", {"rollback": True})


@pytest.mark.parametrize("name", ["sabre", "archr", "Archer", "no_rollback", "llada-confidense"])
def test_an_unknown_name_is_met_with_a_suggestion_and_the_list(name: str) -> None:
    said = refusal(name, {})
    assert f"There is no method {name!r}" in said
    assert "Did you mean" in said
    for known in (*METHODS, *DECODERS, *POLICIES):
        assert known in said


@pytest.mark.parametrize(
    ("name", "part", "meant"),
    [("saber+archr", "archr", "archer"), ("sabre+archer:8", "sabre", "saber")],
)
def test_the_part_that_is_misspelled_gets_the_suggestion(name: str, part: str, meant: str) -> None:
    said = refusal(name, {})
    assert f"{part!r} is not a " in said
    assert f"Did you mean {meant!r}?" in said


@pytest.mark.parametrize("name", ["", "+", "saber+", "+archer", "saber+saber"])
def test_a_name_that_is_no_pair_is_refused(name: str) -> None:
    assert f"There is no method {name!r}" in refusal(name, {})


@pytest.mark.parametrize(
    ("name", "setting"),
    [("saber", "radius"), ("archer", "steps"), ("llada-confidence", "n"), ("archer", "radious")],
)
def test_a_setting_that_is_not_used_is_refused_with_what_is(name: str, setting: str) -> None:
    said = refusal(name, {setting: 4})
    assert said.startswith(f"The method {name!r} does not use the setting {setting!r}.")
    assert "length" in said
    for taken in said.rpartition("It takes: ")[2].removesuffix(".").split(", "):
        assert taken in {*build(name, {}).settings, *SIZING}


@pytest.mark.parametrize(
    ("name", "setting", "owner"),
    [
        (DEFAULT_METHOD, "share", "'late'"),
        ("saber", "radius", "'archer'"),
        ("llada-confidence", "mu", "'saber', 'saber-doubt', 'saber-rest' and others"),
        ("saber", "threshold", "'threshold', 'wino', 'sdar' and others"),
    ],
)
def test_whose_setting_it_is_is_told(name: str, setting: str, owner: str) -> None:
    assert f"{setting!r}. That belongs to {owner}. It takes: " in refusal(name, {setting: 1})


def test_what_decodes_where_nobody_names_a_method() -> None:
    """The confirmed method; the paper's where a radius or one of the paper's presets is given."""
    assert default_method() == default_method(None, {"length": 8, "n": 2}) == DEFAULT_METHOD
    assert default_method(None, {"radius": None}) == DEFAULT_METHOD, "left unset"
    assert default_method(None, {"radius": 4}) == "archer"
    assert {default_method(name) for name in PRESETS} == {"archer"}
    for name in PRESETS:
        assert build(default_method(name), {}, name).settings["radius"] == PRESETS[name]["radius"]
    assert demo.SIDE_BY_SIDE[-1] == demo.METHODS[-1] == DEFAULT_METHOD


def test_the_default_is_what_was_confirmed() -> None:
    """Under its own name what the second plan in docs/log.md has as settings."""
    named = build(DEFAULT_METHOD, {"length": 8})
    planned = build("saber+surprise", {"length": 8, "nats": 0.3, "doubt": 1.0, "doubt_by": "kept"})
    assert (named.decoder, named.policy) == (planned.decoder, planned.policy)


def test_a_name_stands_for_settings_that_can_be_said_otherwise() -> None:
    """`archer-cut` is its parts with the settings it implies; what is said takes precedence."""
    named = build("archer-cut", {"length": 64})
    spelled = build("saber-doubt+surprise", {"length": 64, "canvas": "auto", "cap": 0.99})
    assert (named.decoder, named.policy) == (spelled.decoder, spelled.policy)
    assert named.settings == spelled.settings
    whole = build("archer-cut", {"length": 64, "canvas": "fixed", "cap": 1.0})
    assert whole.decoder == build("archer-doubt", {"length": 64}).decoder
    assert build("archer-cut", whole.settings).decoder == whole.decoder, "as a run records it"
    assert build("archer-cut:0.5", {}).settings["nats"] == 0.5
    assert build("archer-cut", {"block": 32, "length": 64}).settings["canvas"] == "fixed"
    with pytest.raises(BadRequest, match="one block"):
        build("archer-cut", {"block": 32, "length": 64, "canvas": "auto"})
    shown = settings("archer-cut")
    assert {name: shown[name].default for name in IMPLIED["archer-cut"]} == IMPLIED["archer-cut"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("archer", {"radius": 0}),
        ("archer", {"radius": 2.5}),
        ("archer", {"radius": math.nan}),
        ("archer", {"radius": -1}),
        ("archer", {"radius": "far"}),
        ("archer", {"n": 0}),
        ("archer", {"n": 1.5}),
        ("archer", {"n": True}),
        ("archer", {"mu": 0}),
        ("archer", {"block": 0}),
        ("archer", {"watch": "nothing"}),
        ("archer", {"temperature": -0.1}),
        ("archer", {"temperature": math.inf}),
        ("archer", {"temperature": math.nan}),
        ("llada-confidence", {"steps": 0}),
        ("confidence+age", {"every": 0}),
        ("archer", {"length": 0}),
        ("archer", {"length": -3}),
        ("archer", {"length": 2.5}),
        ("archer", {"length": "many"}),
        ("archer", {"length": 10**13}),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, settings: dict[str, Any]) -> None:
    ((setting, value),) = settings.items()
    said = refusal(name, settings)
    assert said.startswith(f"{setting} ")
    assert said.endswith(f", not {value!r}.")


def test_a_value_in_the_name_is_checked_too() -> None:
    for value in ("0", "x", "2.5", "8:9"):
        said = refusal(f"saber+archer:{value}", {})
        assert said.startswith("radius ")
        assert said.endswith(f", not {value!r}.")
    assert "'radius' is given twice" in refusal("saber+archer:8", {"radius": 8})


@pytest.mark.parametrize(("alias", "setting"), ALIASES.items())
def test_names_from_transformers_are_understood_but_not_twice(alias: str, setting: str) -> None:
    assert build("archer", {alias: 32}).settings[setting] == 32
    both = {alias: 32, setting: 32}
    for given in (both, dict(reversed(both.items()))):
        said = refusal("archer", given)
        assert repr(alias) in said
        assert repr(setting) in said


def test_what_is_left_unset_is_not_given() -> None:
    unset = {"radius": None, "length": None, "max_new_tokens": 16, "block": None, "steps": None}
    assert build("archer", unset) == build("archer", {"length": 16})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", METHODS)
def test_a_preset_gives_what_the_method_takes_and_can_be_overruled(name: str, preset: str) -> None:
    wanted, made = PRESETS[preset], build(name, {}, preset).settings
    plain = build(name, {}).settings
    assert made.keys() == plain.keys()
    for key, value in made.items():
        assert value == (wanted[key] if key in wanted else plain[key])


def test_presets_are_the_published_operating_points_and_never_a_default() -> None:
    radii = {name: build("archer", {}, name).settings["radius"] for name in PRESETS}
    assert radii["paper:mbpp"] == 11
    assert radii["paper:livecodebench"] == 10
    assert radii["paper:humaneval"] == 8
    assert build("archer", {}).settings["radius"] == 8
    assert build("archer", {"radius": 3}, "paper:mbpp").settings["radius"] == 3
    assert build("archer", {"length": 512}, "paper").settings["length"] == 512
    assert build("saber+archer:3", {}, "paper:mbpp").settings["radius"] == 3
    assert refusal("archer", {}, "papr").startswith(
        "There is no preset 'papr'. Did you mean 'paper'? Presets: paper, "
    )


@pytest.mark.parametrize("name", METHODS)
def test_settings_are_complete_plain_data(name: str) -> None:
    method = build(name, {"length": 24})
    settings = dict(method.settings)
    assert settings["length"] == 24
    decoder, policy = METHODS[name][0].split("+")
    rule = getattr(method.decoder, "inner", method.decoder)
    for part, made in ((DECODERS[decoder], rule), (POLICIES[policy], method.policy)):
        free = {k: v for k, v in settings_of(made).items() if k not in part.fixed}
        assert free.items() <= settings.items()
    assert json.loads(json.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("saber+eager:3", "'eager:3' means nothing: 'eager' takes no value."),
        ("saber+archer:", "'archer:' means nothing: 'archer' takes its radius after the colon."),
        ("saber+archer+age", "has more than a decoder and a cache"),
        ("archer:x", "radius must be a whole number or inf, at least 1, not 'x'."),
    ],
)
def test_spellings_that_mean_nothing(name: str, sentence: str) -> None:
    assert sentence in refusal(name, {})


@pytest.mark.parametrize("name", sorted({*METHODS, *DECODERS}))
def test_the_settings_of_a_method_make_the_same_method(name: str) -> None:
    first = build(name, {"length": 16})
    again = build(name, first.settings)
    assert (again.decoder, again.policy, again.settings) == (
        first.decoder,
        first.policy,
        first.settings,
    )


@pytest.mark.parametrize(
    ("misspelled", "meant"),
    [("raduis", "radius"), ("lenght", "length"), ("temprature", "temperature")],
)
def test_a_misspelled_setting_is_met_with_a_suggestion(misspelled: str, meant: str) -> None:
    assert f"Did you mean {meant!r}?" in refusal("archer", {misspelled: 3})


@pytest.mark.parametrize("name", [*METHODS, *DECODERS])
def test_the_settings_of_a_method_can_be_listed(name: str) -> None:
    """With the defaults that `build` takes, and a text in which every one has its line."""
    found = settings(name)
    built = build(name, {})
    assert found.keys() == {*built.settings, *SIZING}
    own = {key: found[key].default for key in built.settings}
    assert own == dict(built.settings)
    assert [line.partition("=")[0] for line in repr(found).splitlines()] == list(found)
    assert all(each.allowed for each in found.values())


@pytest.mark.parametrize("part", [*DECODERS.values(), *POLICIES.values(), COMMON])
def test_every_setting_says_what_it_means(part: Part) -> None:
    assert [each.name for each in described(part).values() if not each.meaning] == []


def test_a_method_is_resolved_from_whatever_was_said() -> None:
    """A name or none, an object, settings, a preset and what the model recommends: one door for all."""
    assert (
        resolve(None, {}, recommended=Recommended(32)).settings
        == build(DEFAULT_METHOD, {"length": 32}).settings
    )
    assert resolve("saber", {"length": None}, recommended=Recommended(32)).length == 32, (
        "left unset"
    )
    assert resolve("saber", {"max_new_tokens": 8}, recommended=Recommended(32)).length == 8
    assert (
        resolve("saber", {}, "paper", recommended=Recommended(32)).length
        == PRESETS["paper"]["length"]
    )
    assert resolve(Method(build("saber", {}).decoder), {}, recommended=Recommended(32)).length == 32
    assert Choice(settings={"radius": 4}).named() == "archer"
    own = Recommended(method="sdar", block=8)
    assert resolve(None, {}, recommended=own).settings["block"] == 8
    assert resolve("llada2", {}, recommended=own).settings["block"] == 8
    assert resolve("llada2", {"block": 4}, recommended=own).settings["block"] == 4
    assert resolve("saber", {}, recommended=own).settings["block"] is None
    assert resolve(None, {"radius": 4}, recommended=own).name == "archer"
    assert Choice(settings={"threshold": 0.5}).named(own) == "sdar"
    assert Choice(preset="paper").build().settings["radius"] == PRESETS["paper"]["radius"]


def test_a_preset_gives_way_to_newer_settings_by_any_name() -> None:
    preset = Preset("saber", {"length": 64, "n": 3})
    assert preset.under({"max_new_tokens": 8}).settings == {"max_new_tokens": 8, "n": 3}
    assert preset.under({"n": 1}).build().settings["n"] == 1
    assert preset.under({}).build().length == 64


def test_settings_are_read_as_they_are_typed() -> None:
    typed = ["doubt=0.99", "watch-by = placed", "block=null", "on=true", "order=[[1]]"]
    assert [parse_setting(each) for each in typed] == [
        ("doubt", 0.99),
        ("watch_by", "placed"),
        ("block", None),
        ("on", True),
        ("order", [[1]]),
    ]
    assert parse_setting("doubt") is parse_setting("=1") is parse_setting("") is None
