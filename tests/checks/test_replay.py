"""Replaying recorded trajectories: every doctored field is found, every bad input refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archer.checks import replay
from archer.checks.replay import Case
from archer.errors import BadModel, BadTrace
from archer.model import load
from archer.results.step import Kind
from support.folders import make_llada

LENGTH = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints with one in it."""
    path = tmp_path_factory.mktemp("checkpoints")
    make_llada(path / "tiny", seed=3)
    return path


@pytest.fixture(scope="module")
def case(root: Path) -> Case:
    """A trajectory as a published implementation would have recorded it."""
    model = load(root / "tiny", device="cpu", dtype="float32")
    prompt = [5, 6, 7, 8]
    steps = list(model.stream(prompt, "saber+archer", radius=3, length=LENGTH))
    states = [step.after.response[0].tolist() for step in steps]
    return Case(
        id="tiny/archer_saber/000",
        checkpoint="tiny",
        method="archer_saber",
        settings={"gen_length": LENGTH, "block_length": LENGTH, "n": 2, "mu": 2, "radius": 3},
        prompt=prompt,
        response=states[-1],
        updates=len(steps),
        nfe=len(steps),
        states=states,
        fed=[step.calls[0].fed for step in steps],
        full=[step.calls[0].kind is Kind.FULL for step in steps],
        distance=[step.calls[0].distance for step in steps],
        accepted=[np.flatnonzero(step.decision.accepted[0]).tolist() for step in steps],
        remasked=[np.flatnonzero(step.decision.remasked[0]).tolist() for step in steps],
        tau=[step.decision.threshold[0].item() for step in steps],
    )


def mismatches(case: Case, root: Path) -> list[tuple[str, int | None]]:
    ((_, found),) = replay.replay([case], root)
    assert found is not None
    assert {each.id for each in found} <= {case.id}
    return [(each.field, each.update) for each in found]


def test_a_faithful_record_is_identical(case: Case, root: Path) -> None:
    outcome = replay.ReplayReport()
    for _, mismatches in replay.replay([case, case], root):
        outcome.count(mismatches)
    assert (outcome.total, outcome.identical, outcome.unsupported) == (2, 2, 0)
    assert outcome.mismatches == []
    assert len(case.states) > 4
    assert set(case.full or []) == {True, False}


@pytest.mark.parametrize("at", [0, 2, -1])
@pytest.mark.parametrize(
    "field", ["states", "fed", "full", "distance", "accepted", "remasked", "tau"]
)
def test_a_doctored_update_is_found_where_it_is(
    case: Case, root: Path, field: str, at: int
) -> None:
    values = json.loads(json.dumps(getattr(case, field)))
    at %= len(values)
    match values[at]:
        case bool(value):
            values[at] = not value
        case [*items]:
            values[at] = [*items[:-1], 1 + (items[-1] if items else 0)]
        case number:
            values[at] = number + 1
    doctored = case.model_copy(update={field: values})
    assert mismatches(doctored, root) == [(field, at + 1)]


def test_several_doctored_updates_are_reported_by_the_first(case: Case, root: Path) -> None:
    doctored = case.model_copy(update={"fed": [0, *case.fed[1:-1], 0]})
    assert mismatches(doctored, root) == [("fed", 1)]


@pytest.mark.parametrize("field", ["response", "updates", "nfe"])
def test_a_doctored_total_is_found_without_an_update(case: Case, root: Path, field: str) -> None:
    value = getattr(case, field)
    wrong = [0, *value[1:]] if field == "response" else value + 1
    assert wrong != value
    assert mismatches(case.model_copy(update={field: wrong}), root) == [(field, None)]


@pytest.mark.parametrize("field", ["states", "fed", "full", "distance", "accepted", "tau"])
def test_a_record_that_is_too_short_or_too_long_parts_at_its_end(
    case: Case, root: Path, field: str
) -> None:
    values = getattr(case, field)
    shorter = case.model_copy(update={field: values[:-1]})
    assert mismatches(shorter, root) == [(field, len(values))]
    longer = case.model_copy(update={field: [*values, values[-1]]})
    assert mismatches(longer, root) == [(field, len(values) + 1)]


@pytest.mark.parametrize(("error", "found"), [(0.9e-4, False), (-0.9e-4, False), (1.2e-4, True)])
def test_only_the_bar_is_compared_with_a_tolerance(
    case: Case, root: Path, error: float, found: bool
) -> None:
    assert case.tau is not None
    moved = [*case.tau[:2], case.tau[2] + error, *case.tau[3:]]
    expected = [("tau", 3)] if found else []
    assert mismatches(case.model_copy(update={"tau": moved}), root) == expected


def test_fields_that_were_not_recorded_are_not_compared(case: Case, root: Path) -> None:
    names = ("full", "distance", "accepted", "remasked", "tau")
    bare = case.model_copy(update=dict.fromkeys(names))
    assert mismatches(bare, root) == []


def test_another_radius_gives_another_trajectory(case: Case, root: Path) -> None:
    eager = case.model_copy(update={"settings": {**case.settings, "radius": 1}})
    assert ("fed", 2) in mismatches(eager, root)
    endless = case.model_copy(update={"settings": {**case.settings, "radius": "inf"}})
    assert "full" in dict(mismatches(endless, root))


def test_cases_are_read_from_files_and_folders_in_order(case: Case, tmp_path: Path) -> None:
    for name in ("b", "a"):
        renamed = case.model_copy(update={"id": name})
        (tmp_path / f"{name}.jsonl").write_text(renamed.model_dump_json() + "\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not a trace", encoding="utf-8")
    paths = [tmp_path, tmp_path / "b.jsonl"]
    assert [each.id for each in replay.read_cases(paths)] == ["a", "b", "b"]


def test_a_line_ends_where_json_lines_end(case: Case, tmp_path: Path) -> None:
    """Not at every character at which Python would break a text."""
    odd = case.model_copy(update={"id": "a\u2028b\x85c"})
    path = tmp_path / "odd.jsonl"
    path.write_text(f"{odd.model_dump_json()}\n{case.model_dump_json()}", encoding="utf-8")
    assert [each.id for each in replay.read_cases([path])] == [odd.id, case.id]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "JSON"),
        ("[1]", "object"),
        ("[" * 100_000, "JSON"),
        ('{"id": "x"}', "Field required"),
        ("with a surplus field", "surplus"),
        ("with text for a number", "fed.0"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named(
    case: Case, tmp_path: Path, line: str, cause: str
) -> None:
    good: dict[str, Any] = case.model_dump()
    if line == "with a surplus field":
        line = json.dumps(good | {"surplus": 1})
    elif line == "with text for a number":
        line = json.dumps(good | {"fed": ["many"]})
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{json.dumps(good)}\n{line}\n", encoding="utf-8")
    with pytest.raises(BadTrace, match=r"^Line 2 of '.*bad\.jsonl'") as caught:
        replay.read_cases([path])
    assert cause in str(caught.value)


def test_files_without_a_trajectory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no recorded trajectory"):
        replay.read_cases([tmp_path])
    with pytest.raises(
        BadTrace, match=r"missing\.jsonl' cannot be read: No such file or directory\.$"
    ):
        replay.read_cases([tmp_path / "missing.jsonl"])
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(BadTrace, match=r"latin\.jsonl' is not UTF-8: byte "):
        replay.read_cases([tmp_path])


@pytest.mark.parametrize("name", ["absent", "../tiny", "", ".", "/etc"])
def test_a_checkpoint_is_a_folder_inside_the_given_one(case: Case, root: Path, name: str) -> None:
    with pytest.raises(BadModel, match=r"There is no checkpoint|holds no config\.json"):
        list(replay.replay([case.model_copy(update={"checkpoint": name})], root))


@pytest.mark.parametrize(
    "change", [{"gen_length": 0}, {"radius": 0}, {"clairvoyance": 1}, {"block_length": 5}]
)
def test_settings_that_cannot_be_run_are_refused_with_the_case(
    case: Case, root: Path, change: dict[str, Any]
) -> None:
    wrong = case.model_copy(update={"settings": {**case.settings, **change}})
    with pytest.raises(BadTrace, match=f"recorded case {case.id!r} cannot be run"):
        list(replay.replay([wrong], root))
