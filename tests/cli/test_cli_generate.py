"""`archer generate`, in process: results, refusals, traces, and what a terminal is shown."""

import io
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

import archer.model
from archer.cli import main
from archer.loading.source import Source
from archer.model import Model
from archer.results.trace import End, Start, Update, read, states
from support.folders import VOCABULARY, make_dream, make_llada

LLADA_MASK = 258


@pytest.fixture(scope="module")
def ids_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder without a tokenizer."""
    return str(make_llada(tmp_path_factory.mktemp("ids")))


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with tokenizer and chat template."""
    return str(make_llada(tmp_path_factory.mktemp("text"), tokenizer=True))


class Terminal(io.StringIO):
    """Stdout of somebody who is looking."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stdout a terminal; called inside the test, where pytest has set its own stdout."""
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return screen


Capture = pytest.CaptureFixture[str]


def test_ids_in_ids_out(ids_model: str, capsys: Capture) -> None:
    assert main(["generate", "--model", ids_model, "--prompt-ids", "5,7,9", "--length", "8"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    ids = [int(part) for part in out.split(",")]
    assert len(ids) == 8
    assert LLADA_MASK not in ids
    assert tuple(ids) == archer.load(ids_model).generate([5, 7, 9], length=8)[0].tokens


def test_the_length_may_follow_the_answer(ids_model: str, capsys: Capture) -> None:
    """Two columns at first, twice as many while no end is in sight, and no more than the most."""
    most = ["--length", "auto", "--set", "max_length=8", "--set", "start_length=2"]
    assert main(["generate", "--model", ids_model, "--prompt-ids", "5,7,9", *most, "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["completions"]
    assert len(done["tokens"]) <= 8
    assert LLADA_MASK not in done["tokens"]


def test_a_file_with_gaps_is_filled(text_model: str, tmp_path: Path, capsys: Capture) -> None:
    """What stands around the gaps comes back as it was; the mark may be another."""
    draft = tmp_path / "draft.txt"
    draft.write_text("one {} two {} three\n")
    asked = ["fill", str(draft), "--model", text_model]
    assert main([*asked, "--length", "4", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["completions"]
    assert len(done["tokens"]) == 8
    assert main([*asked, "--length", "4", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("one ")
    assert out.endswith(" three\n")
    assert " two " in out
    assert main([*asked, "--curve", *"11110", "--quiet"]) == 2
    assert "A curve must stay above 0" in capsys.readouterr().err
    assert main([*asked, "--gap", "@@"]) == 2
    assert "There is no gap in the text" in capsys.readouterr().err


def test_an_answer_may_have_text_behind_it(text_model: str, capsys: Capture) -> None:
    asked = ["generate", "--model", text_model, "--raw", "--length", "4", "--json", "one"]
    assert main([*asked, "--suffix", " two"]) == 0
    (between,) = json.loads(capsys.readouterr().out)["completions"]
    assert len(between["tokens"]) == 4
    assert main(asked) == 0
    (behind,) = json.loads(capsys.readouterr().out)["completions"]
    assert between["prompt_tokens"] > behind["prompt_tokens"]


def test_text_in_text_out(text_model: str, capsys: Capture) -> None:
    assert main(["generate", "Hello", "--model", text_model, "--length", "8"]) == 0
    assert capsys.readouterr() == (
        f"{archer.load(text_model).generate('Hello', length=8)[0].text}\n",
        "",
    )


def test_every_prompt_is_a_row(text_model: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("from a file\n", encoding="utf-8")
    argv = ["generate", "one", "two", "--prompt-file", str(file), "--prompt-ids", "5,7"]
    assert main([*argv, "--prompt-ids", "9", "--model", text_model, "--length", "4", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)["completions"]
    model = archer.load(text_model)
    expected = [len(model.encode(text)) for text in ("one", "two", "from a file")] + [2, 1]
    assert [each["prompt_tokens"] for each in done] == expected


def test_a_chat_is_a_prompt(text_model: str, tmp_path: Path, capsys: Capture) -> None:
    """One message of the user's is what a text is; turns before it make another prompt."""
    said = [{"role": "user", "content": "hello"}]
    turns = [{"role": "system", "content": "Be brief."}, *said]
    tokens = []
    for given in (["hello"], ["--messages", chat(tmp_path, json.dumps(said))]):
        assert main(["generate", "--model", text_model, "--length", "4", "--json", *given]) == 0
        tokens.append(json.loads(capsys.readouterr().out)["completions"][0])
    file = chat(tmp_path, json.dumps(turns))
    assert (
        main(["generate", "--model", text_model, "--length", "4", "--json", "--messages", file])
        == 0
    )
    longer = json.loads(capsys.readouterr().out)["completions"][0]
    assert tokens[0]["tokens"] == tokens[1]["tokens"]
    assert longer["prompt_tokens"] > tokens[0]["prompt_tokens"]


def test_raw_leaves_the_template_out(text_model: str, capsys: Capture) -> None:
    argv = ["generate", "abc", "--model", text_model, "--length", "4", "--json"]
    main([*argv, "--raw"])
    assert json.loads(capsys.readouterr().out)["completions"][0]["prompt_tokens"] == 3
    main(argv)
    assert json.loads(capsys.readouterr().out)["completions"][0]["prompt_tokens"] > 3


def test_json_is_one_object_of_plain_numbers(ids_model: str, capsys: Capture) -> None:
    argv = ["generate", "--model", ids_model, "--prompt-ids=5", "--length=8", "--radius=inf"]
    assert main([*argv, "--json", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert err == ""
    assert out.count("\n") == 1
    assert found["model"] == ids_model
    assert found["method"] == "archer"
    assert found["seed"] == 3
    assert found["settings"]["radius"] == "inf"
    (done,) = found["completions"]
    assert done["full_passes"] == 1
    assert done["updates"] == done["full_passes"] + done["cached_passes"] + done["reused_passes"]


def test_aliases_and_other_settings(ids_model: str, capsys: Capture) -> None:
    argv = ["generate", "--model", ids_model, "--prompt-ids", "5", "--max-new-tokens", "8"]
    argv += ["--block-length", "4", "--set", "watch=placed", "--set", "mu=4", "--json"]
    assert main([*argv, "--method", "saber+age:3"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    wanted = {"length": 8, "block": 4, "watch": "placed", "mu": 4, "every": 3}
    assert wanted.items() <= settings.items()


IDS = ["--prompt-ids", "5,7,9"]


def chat(folder: Path, content: str) -> str:
    (folder / "chat.json").write_text(content)
    return str(folder / "chat.json")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("", "There is no prompt"),
        ("--prompt-ids=", "The prompt is empty"),
        ("--prompt-ids 5,x", "whole numbers with commas"),
        (f"--prompt-ids 5,{LLADA_MASK}", "the mask id 258"),
        (f"--prompt-ids {VOCABULARY}", "knows ids 0 to"),
        ("--prompt-ids 5,7,9 --length 510", "need 513 positions"),
        ("--prompt-ids 5 --length 0", "length must be"),
        ("--prompt-ids 5 --threads 0", "threads must be"),
        ("--prompt-ids 5 --length 8 --block 3", "does not divide"),
        ("--prompt-ids 5 --radius 0", "radius must be a whole number or inf"),
        ("--prompt-ids 5 --radius 1.5", "radius must be a whole"),
        ("--prompt-ids 5 --length 4 --least 5", "do not fit a response"),
        ("--prompt-ids 5 --method sabre", "Did you mean 'saber'"),
        ("--prompt-ids 5 --preset papers", "no preset 'papers'"),
        ("hello", "has no tokenizer"),
        ("--prompt-ids 5 --trace /", "cannot be written"),
        ("--prompt-ids 5 --threshold 0.9", "does not use the setting"),
        ("--prompt-ids 5 --set watch", "--set takes NAME=VALUE"),
        ("--prompt-ids 5 --least 2 --set n=3", "is given twice"),
        ("--prompt-ids 5 --dtype int8", "There is no dtype 'int8'"),
        ("--prompt-ids 5 --device abacus", "The device 'abacus'"),
        ("--prompt-ids 5 --revision ab12", "has no revisions"),
        ("--prompt-ids 5 --length many", "Invalid value for --length"),
        ("--prompt-ids 5 --lenght 8", "Unknown option: --lenght"),
        ("--prompt-ids 5 --length 8 --max-new-tokens 8", "specified multiple times"),
    ],
)
def test_bad_options_get_a_sentence(
    options: str, sentence: str, ids_model: str, capsys: Capture
) -> None:
    refused(["--model", ids_model, *options.split()], sentence, capsys)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([""], "The prompt is empty"),
        ([" \n"], "The prompt is empty"),
        (["a <|eot_id|>"], "spells the special token"),
        (["caf\udce9"], "not UTF-8"),
        (["--prompt-file", "/nowhere"], "cannot be read"),
        (["--messages", "/nowhere"], "archer: The file "),
        (["--model", "/nowhere", *IDS], "There is no folder"),
    ],
)
def test_bad_prompts_get_a_sentence(
    words: list[str], sentence: str, text_model: str, capsys: Capture
) -> None:
    model = [] if "--model" in words else ["--model", text_model]
    refused([*words, *model], sentence, capsys)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("hello", "It is not JSON"),
        ('{"role": "user", "content": "x"}', "must be a JSON list of messages"),
        ("[]", "must be a JSON list"),
        ('[{"role": "user"}]', "Message 1 is not one."),
        ('[{"role": "user", "content": 1}]', "Message 1 is not one."),
        (r'[{"role": "user", "content": "\ud800"}]', "not UTF-8"),
        ('[{"role": "user", "content": "x"}]', "Chat messages need the chat template"),
        ('[{"role": "user", "content": " "}]', "The prompt is empty"),
    ],
)
def test_bad_chats_get_a_sentence(
    content: str, sentence: str, text_model: str, tmp_path: Path, capsys: Capture
) -> None:
    words = ["--messages", chat(tmp_path, content), "--model", text_model, "--raw"]
    refused(words, sentence, capsys)


def refused(words: list[str], sentence: str, capsys: Capture) -> None:
    assert main(["generate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("archer: ")
    assert err.count("\n") == 1
    assert sentence in err


def test_not_utf8_is_refused(text_model: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"caf\xe9")
    assert main(["generate", "--model", text_model, "--prompt-file", str(file)]) == 2
    assert "is not UTF-8: byte 3" in capsys.readouterr().err


def test_special_tokens_can_be_allowed(text_model: str, capsys: Capture) -> None:
    argv = ["generate", "a <|eot_id|>", "--model", text_model, "--length", "4", "--allow-special"]
    assert main(argv) == 0
    assert capsys.readouterr().err == ""


def test_bad_requests_are_refused_before_the_model_is_loaded(
    ids_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untouched(*_: object, **__: object) -> Model:
        pytest.fail("the model was loaded")

    monkeypatch.setattr(archer.model, "load_here", untouched)
    argv = ["generate", "--model", ids_model, *IDS]
    assert main([*argv, "--trace", str(tmp_path)]) == 2
    assert main([*argv, "--method", "saber", "--length", "8", "--block", "3"]) == 2
    assert main([*argv, "--radius", "-1"]) == 2
    assert main([*argv, "--method", "nope"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["Hello."], "no tokenizer"),
        ([*IDS, "--length", "60000", "--method", "wino"], "60000"),
        ([*IDS, "--set", "nonsense=1"], "nonsense"),
    ],
)
def test_no_weights_are_read_for_a_request_that_the_folder_refuses(
    options: list[str],
    message: str,
    ids_model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(Source, "network", lambda *_: pytest.fail("weights were read"))
    assert main(["generate", *options, "--model", ids_model]) == 2
    assert message in capsys.readouterr().err


def test_a_window_beyond_training_warns(tmp_path: Path, capsys: Capture) -> None:
    model = str(make_dream(tmp_path / "dream"))
    argv = ["generate", "--model", model, "--prompt-ids", ",".join(["5"] * 2045), "--length", "4"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert len(out.split(",")) == 4
    assert err.startswith("archer: A prompt and its response exceed the 2048 positions")
    assert err.count("\n") == 1
    assert main([*argv, "--quiet"]) == 0
    assert capsys.readouterr() == (out, "")


def test_the_trace_tells_the_whole_story(text_model: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "trace.jsonl"
    argv = ["generate", "--model", text_model, *IDS, "--prompt-ids=8", "--length=12", "--json"]
    assert main([*argv, "--trace", str(file), "--radius", "inf"]) == 0
    done = json.loads(capsys.readouterr().out)["completions"]
    start, *events = read(file)
    assert isinstance(start, Start)
    assert start.prompts == [[5, 7, 9], [8]]
    assert start.settings["radius"] == "inf"
    assert set(start.pieces or {}) == {5, 7, 8, 9}
    for row in (0, 1):
        updates = [each for each in events if isinstance(each, Update) and each.row == row]
        assert [each.update for each in updates] == list(range(1, done[row]["updates"] + 1))
        assert list(states(start, updates))[-1] == done[row]["tokens"]
    ends = [each for each in events if isinstance(each, End)]
    assert [each.completion for each in ends] == [
        {name: each[name] for name in end.completion} for each, end in zip(done, ends, strict=True)
    ]


@pytest.fixture
def poisoned(ids_model: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model for which every prompt with the id 7 gives NaN."""
    load = archer.model.load_here

    def poison(*args: Any, **options: Any) -> Model:
        model = load(*args, **options)
        model.network.embedding.data[7] = math.nan
        return model

    monkeypatch.setattr(archer.model, "load_here", poison)
    return ids_model


def test_nan_stops_its_row_only(poisoned: str, capsys: Capture) -> None:
    argv = ["generate", "--model", poisoned, "--prompt-ids", "5", "--prompt-ids", "5,7"]
    assert main([*argv, "--length", "8"]) == 1
    out, err = capsys.readouterr()
    assert len(out.split(",")) == 8
    assert out.count("\n") == 1
    assert err.startswith("archer: prompt 2: The full pass of update 1 returned NaN")
    assert main([*argv, "--length", "8", "--json"]) == 1
    done = json.loads(capsys.readouterr().out)["completions"]
    assert [each["finish_reason"] for each in done] == ["length", "error"]
    assert done[1]["tokens"] == []


def test_nan_is_shown_in_a_terminal(
    poisoned: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    screen = terminal(monkeypatch)
    assert main(["generate", "--model", poisoned, "--prompt-ids", "5,7", "--length", "8"]) == 1
    assert "stopped after 0 updates" in screen.getvalue()
    assert capsys.readouterr().err.startswith("archer: The full pass of update 1")


def test_a_terminal_sees_the_view_and_then_the_text(
    text_model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    screen = terminal(monkeypatch)
    assert main(["generate", "Hello", "--model", text_model, "--length", "8"]) == 0
    written = screen.getvalue()
    frames, _, rest = written.rpartition("\x1b[?25h")
    assert "· masked" in frames
    assert "unexpected" in frames
    assert "updates: " in rest
    assert "tokens/forward" in rest
    assert "· masked" not in rest
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["--plain", "--quiet", "--json"])
def test_a_terminal_is_left_alone_on_request(
    option: str, ids_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal(monkeypatch)
    assert main(["generate", "--model", ids_model, *IDS, "--length", "8", option]) == 0
    assert "\x1b" not in screen.getvalue()
    assert screen.getvalue().count("\n") == 1


def test_a_dumb_terminal_gets_plain_text(ids_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert main(["generate", "--model", ids_model, *IDS, "--length", "8"]) == 0
    assert "\x1b" not in screen.getvalue()


@pytest.fixture
def hostile(text_model: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model that writes a terminal escape."""
    monkeypatch.setattr(
        "archer.loading.text.text.Text.decode", lambda self, ids: "\x1b]0;owned\x07\x9b31m"
    )
    monkeypatch.setattr("archer.loading.text.text.Text.piece", lambda self, id: "\x1b]0;owned\x07")
    return text_model


@pytest.mark.parametrize("options", [[], ["--plain"], ["--json"]])
def test_model_output_never_steers_the_terminal(
    options: list[str], hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal(monkeypatch)
    assert main(["generate", "x", "--model", hostile, "--length", "8", *options]) == 0
    assert "owned" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()
    assert "\x9b" not in screen.getvalue()


def test_a_pipe_gets_the_text_as_it_is(hostile: str, capsys: Capture) -> None:
    assert main(["generate", "x", "--model", hostile, "--length", "8"]) == 0
    assert capsys.readouterr().out == "\x1b]0;owned\x07\x9b31m\n"


def test_log_records_are_lines_on_stderr(
    ids_model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    load = archer.model.load_here

    def talkative(*args: Any, **options: Any) -> Model:
        logging.getLogger("archer.loading.hub").warning("%s is not pinned.", "this")
        return load(*args, **options)

    monkeypatch.setattr(archer.model, "load_here", talkative)
    argv = ["generate", "--model", ids_model, *IDS, "--length", "4"]
    assert main(argv) == 0
    assert capsys.readouterr().err == "archer: this is not pinned.\n"
    assert main([*argv, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
