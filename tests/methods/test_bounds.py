"""A small request never costs a large one: extreme values are refused at once or decoded soon."""

import time
import tracemalloc
from typing import Any

import pytest

from archer.errors import ArcherError, BadRequest, quoted
from archer.methods.build import build
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.settings import described
from archer.methods.spelling import MOST_CHARACTERS
from archer.model import Model, load
from archer.passes.bounds import UPDATES_BESIDE, UPDATES_PER_TOKEN
from support.extremes import LENGTH, cases
from support.folders import make_llada

SECONDS = 0.05
BYTES = 10 << 20
TRIES = 5
LONGEST_SENTENCE = 2000


def settings_of(setting: str, value: Any) -> dict[str, Any]:
    return {"length": LENGTH} | {setting: value}


def tried(method: str, setting: str, value: Any) -> int | str:
    """Updates that the method may make, or the refusal."""
    try:
        made = build(method, settings_of(setting, value))
    except BadRequest as error:
        return str(error)
    return made.decoder.limit(made.length)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_setting_is_refused_at_once_or_bounded(every: int) -> None:
    """CPU seconds of the best of some, because the first call compiles a schema and garbage is collected."""
    assert len(cases()) > 1000
    drawn = cases()[::every]
    for case in drawn:
        tried(*case)
    tracemalloc.start()
    try:
        for method, setting, value in drawn:
            where = (method, setting, quoted(value))
            spent: list[float] = []
            while not spent or (spent[-1] >= SECONDS and len(spent) < TRIES):
                tracemalloc.reset_peak()
                begun = time.thread_time()
                found = tried(method, setting, value)
                spent.append(time.thread_time() - begun)
                now, peak = tracemalloc.get_traced_memory()
                assert peak - now < BYTES, where
            assert min(spent) < SECONDS, where
            if isinstance(found, str):
                assert len(found) < LONGEST_SENTENCE, where
            else:
                assert found <= UPDATES_PER_TOKEN * 500_000 + UPDATES_BESIDE, where
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_llada(tmp_path_factory.mktemp("llada")), device="cpu", dtype="float64")


def test_what_is_not_refused_decodes_to_its_end(model: Model) -> None:
    """Or ends with a sentence of ours: the tiny model's own window refuses long responses."""
    decoded = 0
    for method, setting, value in cases():
        if isinstance(tried(method, setting, value), str) or value in (0, True):
            continue
        try:
            (done,) = model.generate([[3, 1, 4]], method, settings=settings_of(setting, value))
        except ArcherError:
            continue
        assert done.updates <= UPDATES_PER_TOKEN * LENGTH + UPDATES_BESIDE
        decoded += 1
    assert decoded > 20


NUMBERS = {
    (name, item.name): item.allowed
    for name, part in {**DECODERS, **POLICIES}.items()
    for item in described(part).values()
    if "number" in item.allowed and "list" not in item.allowed
}


@pytest.mark.parametrize("where", NUMBERS, ids=str)
def test_every_number_declares_its_upper_bound(where: tuple[str, str]) -> None:
    """But the radius, which is compared and nothing else: infinity is one of its values."""
    words = NUMBERS[where]
    assert "at most" in words or "below" in words or "inf" in words


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("confidence", {"steps": 10_000}),
        ("dream", {"steps": 10_000}),
        ("remdm", {"loops": 10_000}),
        ("remdm-sampling", {"steps": 10_000}),
        ("llada2-edit", {"max_post_steps": 10_000}),
    ],
)
def test_more_updates_than_a_response_is_worth_are_refused(
    method: str, settings: dict[str, Any]
) -> None:
    most = UPDATES_PER_TOKEN * LENGTH + UPDATES_BESIDE
    with pytest.raises(BadRequest, match=rf"for a response of 8 tokens, and the most is {most}"):
        build(method, {"length": LENGTH, **settings})


@pytest.mark.parametrize("name", ["x" * 10**6, "saber+" * 10**5, f"archer:{'0' * 10**5}8"])
def test_a_name_that_is_no_name_is_not_repeated(name: str) -> None:
    with pytest.raises(BadRequest, match=f"at most {MOST_CHARACTERS} characters") as caught:
        build(name, {})
    assert len(str(caught.value)) < 300


def test_a_temperature_that_cannot_be_divided_by_is_refused() -> None:
    with pytest.raises(BadRequest, match="0 or a number from 1e-06"):
        build("dream", {"temperature": 5e-324})
    assert build("dream", {"temperature": 1e-6}).settings["temperature"] == 1e-6


def test_foreign_values_are_quoted_in_part() -> None:
    assert quoted("a") == "'a'"
    assert quoted(3.0) == "3.0"
    assert quoted("x" * 10**6) == f"'{'x' * 79}..."
    assert quoted(10**5000) == "a very long int"
    assert quoted([10**5000]) == "a very long list"


def test_a_setting_s_name_is_not_repeated_whole() -> None:
    with pytest.raises(BadRequest) as caught:
        build("saber", {"s" * 900_000: 1})
    assert len(str(caught.value)) < 1000
    assert "s" * 100 not in str(caught.value)
