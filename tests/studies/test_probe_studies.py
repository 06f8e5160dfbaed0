"""Branches, shadow passes and bounds on a tiny model: what they must not change, and what they say."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from archer.engine.walk import steps_of
from archer.errors import ArcherError
from archer.results.step import Kind
from archer.runs.evaluation import Grader
from archer.runs.workspace import Arm, Workspace
from archer_studies.paper import feedback, validity
from archer_studies.probes.branches import Branch, Event, branch, find_event
from archer_studies.probes.shadow_passes import divergence, require_unchanged, walk
from archer_studies.registry import STUDIES
from archer_studies.study import Row, Study, result_of
from studies.probing import make_workspace

Results = dict[str, dict[str, Any]]
PROBING = tuple(STUDIES[name] for name in ("feedback", "validity", "theory"))

"""One process runs them all: what they share takes half a minute to make."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module")
def arm(workspace: Workspace) -> Arm:
    return workspace.arm("archer", radius=validity.RADIUS)


@pytest.fixture(scope="module")
def results(workspace: Workspace) -> Results:
    """Every probing study, as it is kept."""
    measured = {study.name: result_of(study, workspace) for study in PROBING}
    kept: Results = json.loads(json.dumps(measured, allow_nan=False))
    assert kept == measured
    return kept


def parts(result: dict[str, Any], name: str) -> list[Row]:
    return [row for row in result["rows"] if row["part"] == name]


def an_event(workspace: Workspace) -> tuple[Event, Any, int]:
    request = workspace.request("archer", radius=validity.RADIUS)
    prompt = next(iter(workspace.prompts(request).values()))
    stream = walk(request, prompt)
    event = find_event(stream, 0.0)
    assert event is not None
    return event, stream.request.method, len(prompt)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("study", PROBING, ids=lambda study: study.name)
def test_a_result_is_presented_from_what_is_kept(results: Results, study: Study) -> None:
    assert STUDIES[study.name] is study
    result = results[study.name]
    presented = study.present(result)
    assert len(presented.tables) >= 2
    assert all(f"n = {result['n']}" in table.markdown() for table in presented.tables[:1])
    assert all(table.records() for table in presented.tables)


def test_without_the_intervention_both_branches_are_one(workspace: Workspace, arm: Arm) -> None:
    event, method, prompt = an_event(workspace)
    first, second = (
        branch(workspace.model, method, event, prompt, refresh=False) for _ in range(2)
    )
    assert first.tokens == second.tokens
    assert first.completion.tokens == second.completion.tokens
    record = arm.run.recorded.samples["0"]
    assert list(first.completion.tokens) == record.tokens
    assert first.completion.full_passes == record.full_passes


def test_the_fresh_branch_differs_in_its_first_pass_alone(workspace: Workspace) -> None:
    event, method, _ = an_event(workspace)
    calls = []
    for refresh in (False, True):
        memory = event.memory.clone()
        if refresh:
            memory.forget()
        step = next(steps_of(workspace.model.network, method, event.state, memory))
        assert np.array_equal(step.before.response, event.state.response)
        calls.append(step.calls[0].kind)
    assert event.distance < validity.RADIUS
    assert calls == [Kind.CACHED, Kind.FULL]


def test_an_event_is_kept_and_sure(workspace: Workspace) -> None:
    event, _, _ = an_event(workspace)
    assert (
        int(event.state.response[0, event.position]) == event.token != workspace.model.folder.mask
    )
    assert set(event.to_dict()) == {"update", "position", "token", "confidence", "distance"}
    request = workspace.request("archer", radius=validity.RADIUS)
    prompt = next(iter(workspace.prompts(request).values()))
    assert find_event(walk(request, prompt), 1.1) is None


def test_a_revision_is_the_first_other_token(workspace: Workspace) -> None:
    event, method, prompt = an_event(workspace)
    made = branch(workspace.model, method, event, prompt, refresh=False)
    mask = workspace.model.folder.mask
    assert Branch(made.completion, (event.token,) * 5).revised_at(event) is None
    assert Branch(made.completion, (event.token, mask, event.token)).revised_at(event) == 2
    assert len(made.tokens) == 5


def test_the_feedback_study_counts_every_problem(results: Results) -> None:
    result = results["feedback"]
    pairs = parts(result, "pair")
    assert len(pairs) == 3
    assert result["n"] + result["settings"]["without_event"] == 3
    assert result["n"] > 0
    for row in pairs:
        if row["event"] is not None:
            made = row["fresh"], row["cached"]
            assert all(
                each["updates"] == each["full_passes"] + each["cached_passes"] for each in made
            )


def test_a_judge_that_fails_ends_the_study(workspace: Workspace) -> None:
    event, method, prompt = an_event(workspace)
    made = branch(workspace.model, method, event, prompt, refresh=True)
    broken = Grader(workspace.open(), lambda sample, text: {}, 1, None)
    object.__setattr__(broken, "record", lambda sample, text: None)
    with pytest.raises(ArcherError, match="Problem 0: the judge failed on the fresh branch"):
        feedback._graded(broken, workspace.samples()[0], made)


def test_a_watched_run_must_be_the_run(workspace: Workspace, arm: Arm) -> None:
    request = workspace.request("archer", radius=validity.RADIUS)
    done = walk(request, workspace.prompts(request)["1"]).finish()[0]
    require_unchanged(arm, "1", done)
    with pytest.raises(
        ArcherError, match="Problem 1: watching the run changed its updates, tokens"
    ):
        require_unchanged(arm, "1", replace(done, updates=done.updates + 1, tokens=done.tokens[1:]))


def test_at_the_anchor_nothing_differs(results: Results) -> None:
    controls = parts(results["validity"], "control")
    assert len(controls) >= 3
    assert not any(row["disagreement"] or row["moved"] for row in controls)
    assert all(row["drift"] < 1e-3 for row in controls)


def test_probes_see_distance_and_age(results: Results) -> None:
    probes = parts(results["validity"], "probe")
    assert results["validity"]["n"] == len(probes) > 0
    assert all(1 <= row["distance"] < validity.RADIUS and row["age"] >= 1 for row in probes)
    assert any(row["drift"] > 1e-3 for row in probes)
    assert sum(row["n"] for row in parts(results["validity"], "bin")[1:]) == len(probes)


def test_the_first_layer_of_a_prompt_never_goes_stale(results: Results) -> None:
    first, *later = parts(results["theory"], "layer")
    assert first["stale"] < 1e-3
    assert all(row["stale"] > 1e-2 for row in later)


def test_no_action_changes_within_the_margin(results: Results) -> None:
    measured, bounded = parts(results["theory"], "condition")
    assert measured["broken"] == bounded["broken"] == 0
    assert measured["held"] >= bounded["held"]
    assert measured["n"] == results["theory"]["n"] > 0


def test_the_feedback_term_is_there(results: Results) -> None:
    events = parts(results["theory"], "event")
    assert len(events) > 0
    assert all(0 < row["feedback"] < 2 * row["fresh"] for row in events)


def test_runs_part_where_their_states_do(workspace: Workspace) -> None:
    request = workspace.request("archer", radius=validity.RADIUS)
    eager = workspace.request("saber")
    prompt = workspace.prompts(request)["2"]
    assert divergence(walk(request, prompt), walk(request, prompt)) is None
    states = [
        [step.after.response[0].tolist() for step in walk(each, prompt)]
        for each in (request, eager)
    ]
    assert states[0] != states[1]
    parted = divergence(walk(request, prompt), walk(eager, prompt))
    assert parted is not None
    assert states[0][: parted - 1] == states[1][: parted - 1]
    assert states[0][parted - 1 : parted] != states[1][parted - 1 : parted]
