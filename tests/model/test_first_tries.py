"""What users try without reading: short reprs, tab completion, a player in a notebook, the demo.

`python -m archer`, 80 columns and Ctrl-C are in tests/cli/test_cli_terminal.py; a report
without matplotlib is in tests/repository/test_clean_install.py.
"""

import html
import os
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import archer
from archer.errors import BadRequest
from archer.model import Model, load
from archer.pages.trajectory import trajectories
from support.folders import make_llada
from support.processes import ran, running

PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"
DEMO_SECONDS = 60.0


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu")


@pytest.fixture(scope="module")
def trace(pocket: Model) -> archer.Trace:
    return pocket.record(PROMPT, radius=8)


def test_the_package_shows_what_it_has() -> None:
    script = "import archer, sys; print(dir(archer)); print('torch' in sys.modules)"
    names, imported = ran(sys.executable, "-c", script).stdout.splitlines()
    assert names == str(sorted(archer.__all__))
    assert imported == "False"
    assert all(getattr(archer, name) is not None for name in dir(archer))


def test_a_model_tells_what_it_is(pocket: Model, tmp_path: Path) -> None:
    assert repr(pocket) == "Model('pocket', LLaDAModelLM, 1.4 M parameters, float32 on cpu)"
    assert (pocket.device.type, pocket.dtype) == ("cpu", torch.float32)
    assert isinstance(pocket.tokenizer, Tokenizer)
    assert load(make_llada(tmp_path / "bare"), device="cpu").tokenizer is None


def test_a_model_is_saved_as_it_was_read(pocket: Model, tmp_path: Path) -> None:
    saved = pocket.save(tmp_path / "new" / "copy")
    again = load(saved, device="cpu")
    assert again.generate(PROMPT)[0].tokens == pocket.generate(PROMPT)[0].tokens
    assert again.text is not None
    with pytest.raises(BadRequest, match="exists already"):
        pocket.save(saved)


def test_a_completion_is_one_line(trace: archer.Trace) -> None:
    (done,) = trace.completions
    said = repr(done)
    assert said.startswith(f"Completion({done.text!r}, stop, {done.full_passes} full and ")
    assert len(done.confidences) == len(done.written_at) == len(done.tokens)


def test_a_notebook_shows_a_completion_as_text_and_player(trace: archer.Trace) -> None:
    (done,) = trace.completions
    assert done.text is not None
    shown = done._repr_html_()
    assert f"<pre>{html.escape(done.text)}</pre>" in shown
    assert f"{done.updates} updates ({done.full_passes} full, {done.cached_passes} cached)" in shown
    assert shown.endswith(trace._repr_html_())
    assert "<b>" not in replace(done, text="<b>", request=None)._repr_html_()
    assert replace(done, text=None, tokens=(7, 8))._repr_html_().startswith("<pre>7 8</pre>")
    assert replace(done, error="<x>")._repr_html_() == "<pre>&lt;x&gt;</pre>"


def test_a_trace_is_the_player_in_a_notebook(
    trace: archer.Trace, pocket: Model, tmp_path: Path
) -> None:
    (done,) = trace.completions
    assert done.tokens == pocket.generate(PROMPT, radius=8)[0].tokens
    assert repr(trace) == f"Trace(1 row, {done.updates} updates; a notebook shows the player)"
    frame = trace._repr_html_()
    assert frame.startswith("<iframe ")
    page = html.unescape(frame.partition('srcdoc="')[2].rpartition('" width')[0])
    assert page == trace.html()
    trace.save(tmp_path / "trace.jsonl")
    (row,) = trajectories(tmp_path / "trace.jsonl")
    assert len(row.updates) == done.updates


@pytest.mark.parametrize("value", [1, 4])
def test_n_counts_samples_everywhere(pocket: Model, value: int) -> None:
    """The same arguments never mean samples in one call and a setting of Saber's in another."""
    assert len(pocket.generate([5, 7, 9], "saber", length=8, n=value)) == value
    handle = pocket.engine().submit([5, 7, 9], "saber", length=8, n=value)
    assert len(handle.results()) == value
    for call in (pocket.stream, pocket.record, pocket.request):
        with pytest.raises(BadRequest) as refused:
            call([5, 7, 9], "saber", length=8, n=value)  # type: ignore[call-arg]
        assert "n counts samples" in str(refused.value)
        assert f"least={value}, or settings={{'n': {value}}}" in str(refused.value)


def test_sabers_n_has_spellings_of_its_own(pocket: Model) -> None:
    for spelled in ({"least": 4}, {"settings": {"n": 4}}, {"settings": {"least": 4}}):
        request = pocket.request([5, 7, 9], "saber", length=8, **spelled)
        assert request.method == archer.methods.build.build("saber", {"length": 8, "n": 4})
    both = pocket.generate([5, 7, 9], "saber", length=8, least=4, n=2)
    plain = pocket.generate([5, 7, 9], "saber", length=8, n=2)
    assert [each.updates for each in both] < [each.updates for each in plain]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"radius": 3, "settings": {"radius": 4}}, "'radius' is given twice"),
        ({"least": 3, "settings": {"n": 4}}, "'least' and 'n' are the same setting"),
    ],
)
def test_a_setting_given_in_two_ways_is_refused(
    pocket: Model, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(BadRequest, match=reason):
        pocket.request([5, 7, 9], "archer", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", ["7", 1.0, None, 2**63])
def test_a_seed_is_a_whole_number(pocket: Model, seed: Any) -> None:
    with pytest.raises(BadRequest, match=r"A seed is a whole number from .*, not"):
        pocket.request([5, 7, 9], seed=seed)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (["two", "texts"], "encode takes one prompt, not 2"),
        ([5, "x"], "A prompt is a text, a list of token ids"),
        (5, "A prompt is a text, a list of token ids"),
    ],
)
def test_what_is_no_prompt_is_not_encoded(pocket: Model, prompt: Any, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        pocket.encode(prompt)
    assert pocket.encode([5, 7]) == [5, 7]


def test_several_rows_are_told_as_such(pocket: Model) -> None:
    assert repr(pocket.record([[5, 7], [9]], length=4)).startswith("Trace(2 rows, ")


@pytest.mark.parametrize("method", ["saber", "saber-dream"])
def test_the_list_of_settings_says_how_n_is_spelled(method: str) -> None:
    """Whoever reads `n=2` there and passes `n=4` would get four samples without a word."""
    assert "`least`" in archer.settings(method)["n"].meaning


@pytest.mark.slow
def test_the_demo_takes_less_than_a_minute_beside_a_busy_process() -> None:
    """In processor time, which the other tests cannot lengthen; threads that wait for each other would."""
    variables = {key: value for key, value in os.environ.items() if "_NUM_THREADS" not in key}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running([sys.executable, "-c", "while True: pass"]):
        done = ran(sys.executable, "-m", "archer", "demo", env=variables, timeout=600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "hidden tests" in done.stdout
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < DEMO_SECONDS
