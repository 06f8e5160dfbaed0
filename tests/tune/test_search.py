"""The search in its folder: rounds, what is read instead of run, and what is refused."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.errors import BadRequest, BadRun, RunBusy
from archer.files import read_json, replace_json
from archer.methods.build import Recommended, build
from archer.methods.presets import open_preset
from archer.model import Model
from archer.runs.executors.executor import Inline
from archer.runs.folder import Lock
from archer.tasks import Data
from archer.tune.candidates import REFERENCE
from archer.tune.choice import Goal
from archer.tune.halving import CALIBRATED, rounds, survivors
from archer.tune.result import present, preset_of, result_of
from archer.tune.search import CALIBRATION, SEARCH, Search, SearchHistory, drawn_order
from archer_studies.probes.trajectories import decoded
from runs.toy import toy_model
from support.processes import reported
from tune.tiny import (
    FINALISTS,
    METHODS,
    Heard,
    TinyDozen,
    one,
    tiny_search,
)

Whole = tuple[Search, SearchHistory, Heard]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return toy_model(tmp_path_factory.mktemp("tune") / "model")


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    heard = Heard()
    search = tiny_search(model, tmp_path_factory.mktemp("whole"), heard)
    return search, search.run(heard), heard


def calibrated(search: Search, second_per_problem: float, folder: Path) -> None:
    """A calibration as if every candidate took the same time for a problem."""
    done = read_json(search.workspace.out / CALIBRATION)
    found = tiny_costs(search)
    rates = {label: second_per_problem / found[label] for label in done["seconds_per_operation"]}
    replace_json(
        folder / CALIBRATION, {"seconds_per_operation": rates, "seconds_per_run": 0.0, "workers": 1}
    )


def test_a_damaged_calibration_is_refused(tmp_path: Path) -> None:
    search = tiny_search(toy_model(tmp_path / "model"), tmp_path / "out", Heard())
    search.run(Heard())
    replace_json(search.workspace.out / CALIBRATION, {"seconds_per_run": 0.0})
    with pytest.raises(BadRun, match=r"calibration\.json is damaged: it holds no calibration"):
        search.run(Heard())


def tiny_costs(search: Search) -> dict[str, float]:
    first = search.run(Heard()).rounds[0].shown
    return {label: seen.cost / CALIBRATED for label, seen in first.items()}


@pytest.mark.slow
def test_rounds_share_their_problems_and_nobody_decodes_one_twice(whole: Whole) -> None:
    search, found, heard = whole
    plan = rounds(len(METHODS) + 1, FINALISTS)
    assert [each[:3] for each in heard.rounds][:2] == [(0, len(plan), 6), (1, len(plan), 6)]
    for each in found.rounds:
        assert len({len(seen.solved) for seen in each.shown.values()}) == 1
        assert REFERENCE in each.shown
    assert len(found.finalists[REFERENCE].solved) == len(search.keys) == 12
    for count in Counter(str(record.id) for record in heard.samples).values():
        assert count <= len(search.candidates)
    decoded = sum(len(seen.solved) for each in found.rounds for seen in each.shown.values())
    assert len(heard.samples) == decoded
    assert heard.read == 0


def test_counted_operations_are_those_of_the_passes_that_were_made(
    whole: Whole, model: Model
) -> None:
    search, found, _ = whole
    task = search.workspace.open()
    (sample,) = (each for each in task.samples() if str(each.id) == search.keys[0])
    assert model.text is not None
    (ids,) = model.text.encode_chats([sample.messages], prefixes=[sample.prefix])
    for label, candidate in search.candidates.items():
        settings = {"length": task.length, **candidate.settings}
        told = decoded(model, ids, candidate.method, settings)
        assert found.rounds[0].shown[label].operations[0] == told.operations


def test_a_finished_search_is_read_and_tells_the_same(whole: Whole) -> None:
    search, found, _ = whole
    heard = Heard()
    again = replace(search, workspace=replace(search.workspace, listener=heard, _arms={})).run(
        heard
    )
    assert heard.samples == []
    assert heard.read == sum(methods * problems for _, _, methods, problems in heard.rounds)
    assert again == found


def test_the_course_follows_from_the_records_alone(
    whole: Whole, model: Model, tmp_path: Path
) -> None:
    """With a recorded calibration, who goes on and how many problems come next is what the pure part says."""
    search, _, _ = whole
    minutes = (6 * CALIBRATED + 60.5) / 60
    heard = Heard()
    tight = tiny_search(model, tmp_path, heard, minutes)
    tmp_path.joinpath("first").mkdir()
    calibrated(search, 1.0, tmp_path / "first")
    (tmp_path / "first" / SEARCH).write_text(json.dumps(tight._plan()))
    tight = replace(tight, workspace=replace(tight.workspace, out=tmp_path / "first"))
    found = tight.run(heard)
    assert heard.rounds[1] == (1, 2, 6, 5)
    assert 1 <= heard.rounds[2][3] <= 12 - CALIBRATED - 5
    assert heard.rounds[2][2] == FINALISTS
    before = {
        label: found.rounds[0].shown[label] + found.rounds[1].shown[label]
        for label in tight.candidates
    }
    assert list(found.finalists) == survivors(before, FINALISTS, REFERENCE)


class Several(Inline):
    """As many as it says, one after the other."""

    workers = 4


@pytest.mark.slow
def test_the_workers_of_the_calibration_decide_the_sizes_of_rounds(
    whole: Whole, model: Model, tmp_path: Path
) -> None:
    """Four solve in two turns what one solves in eight; how many go on with it later plays no part."""
    folder, heard = tmp_path / "first", Heard()
    tight = tiny_search(model, folder, heard, minutes=(6 + 30.5) / 60)
    workspace = replace(tight.workspace, executor=Several())
    tight = replace(tight, workspace=workspace)
    folder.mkdir()
    (folder / SEARCH).write_text(json.dumps(tight._plan()))
    tight._calibrated(heard)
    assert read_json(folder / CALIBRATION)["workers"] == 4
    (folder / CALIBRATION).unlink()
    calibrated(whole[0], 1.0, folder)
    replace_json(folder / CALIBRATION, read_json(folder / CALIBRATION) | {"workers": 4})
    found = tight.run(heard)
    assert heard.rounds[1] == (1, 2, 6, 8)
    alone = replace(tight, workspace=replace(workspace, executor=None, _arms={}))
    assert alone.run(Heard()) == found


def test_too_few_minutes_are_refused_with_a_number_that_is_enough(
    model: Model, tmp_path: Path
) -> None:
    heard = Heard()
    with pytest.raises(BadRequest, match=r"too few for 6 methods: give 1 or more, or name fewer"):
        tiny_search(model, tmp_path, heard, minutes=1e-6).run(heard)


def test_the_result_is_plain_and_presented_from_json_alone(whole: Whole, tmp_path: Path) -> None:
    search, found, _ = whole
    result = json.loads(json.dumps(result_of(search, found, Goal()), allow_nan=False))
    rows = {row["arm"]: row for row in result["rows"]}
    assert rows[REFERENCE]["cost"] == 1.0
    assert set(rows) == set(search.candidates)
    assert sum(row["chosen"] for row in rows.values()) == 1
    assert all(row["seconds"] > 0 for row in rows.values())
    chosen = rows[result["choice"]["method"]]
    assert chosen["frontier"]
    assert "p" not in chosen
    assert all("p" in row for row in rows.values() if row["finalist"] and not row["chosen"])
    presented = present(result)
    assert len(presented.tables[0].rows) == len(found.finalists)
    assert sum(len(table.rows) for table in presented.tables) == len(rows)
    preset = preset_of(search, result)
    assert preset is not None
    path = tmp_path / "preset.json"
    replace_json(path, preset.to_dict())
    held = open_preset(path)
    candidate = search.candidates[chosen["arm"]]
    assert build(held.method, held.settings).settings == candidate.build(Recommended(8)).settings
    assert held.about["task"] == "tiny-dozen"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"finalists": 2}, "holds another search .finalists: 3, now 2"),
        ({"candidates": {**one(REFERENCE), **one("archer")}}, "holds another search .candidates"),
    ],
)
def test_another_search_in_the_same_folder_is_refused(
    whole: Whole, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRun, match=message):
        replace(whole[0], **changes).run(Heard())


def test_foreign_folders_and_second_writers_are_refused(model: Model, tmp_path: Path) -> None:
    search = tiny_search(model, tmp_path / "a", Heard())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "diary.txt").write_text("dear diary")
    with pytest.raises(BadRun, match="holds other files and no search"):
        search.run(Heard())
    other = tiny_search(model, tmp_path / "b", Heard())
    (tmp_path / "b").mkdir()
    lock = Lock(tmp_path / "b")
    with pytest.raises(RunBusy):
        other.run(Heard())
    lock.release()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 0.0}, "must be a number of minutes above 0"),
        ({"candidates": one(REFERENCE)}, "only one candidate"),
        ({"keys": ["d1", "d2"]}, "more than 2 are needed"),
    ],
)
def test_searches_that_cannot_be_are_refused(
    whole: Whole, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        replace(whole[0], **changes)


def test_problems_come_in_an_order_of_their_own_that_is_always_the_same() -> None:
    task = TinyDozen(Data())
    names = [str(sample.id) for sample in task.samples()]
    order = drawn_order(task, None)
    assert sorted(order) == sorted(names)
    assert order != names
    assert drawn_order(task, None, 5) == order[:5]
    shares = [drawn_order(task, (number, 3)) for number in (1, 2, 3)]
    assert sorted(key for share in shares for key in share) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(1, 1), (10, 2)])
def test_a_search_survives_kills(tmp_path: Path, kills: int, seed: int) -> None:
    report = reported("tune.killing", tmp_path, kills, seed)
    assert report["finished"] is True
    assert report["same"] == report["kills"] == kills
    assert report["cut"] >= (kills + 1) // 2, "most kills must come before the end to mean anything"
    assert report["tight"] is True
