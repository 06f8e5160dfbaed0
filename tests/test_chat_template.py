"""Chat templates: what they give, and that a bad one does no harm."""

import io
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from archer.errors import BadModel, BadRequest
from archer.loading import chat_template, template_child
from archer.loading.chat_template import ChatTemplate, read_template
from folders import write_json

USER = [{"role": "user", "content": "hi"}]


def render(source: str, *conversations: Any, **names: str) -> list[str]:
    return ChatTemplate(source, names, "folder").render(conversations or [USER])


def test_messages_names_and_the_generation_prompt() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{{ m['role'] }}={{ m.content | trim }};{% endfor %}"
        "{% if add_generation_prompt %}assistant={% endif %}"
    )
    assert render(source, bos_token="<s>") == ["<s>user=hi;assistant="]


def test_many_conversations_at_once() -> None:
    other = [{"role": "user", "content": "ho"}, {"role": "assistant", "content": "\ud800é"}]
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert render(source, USER, other) == ["hi", "ho\ud800é"]


def test_blocks_leave_no_blank_lines() -> None:
    assert render("a\n  {% if true %}\nb\n  {% endif %}\nc") == ["a\nb\nc"]


def test_loop_controls() -> None:
    source = "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    assert render(source) == ["01"]


def test_tojson_is_plain_json() -> None:
    assert render("{{ messages | tojson }}") == ['[{"role": "user", "content": "hi"}]']
    assert render("{{ '<é>' | tojson(indent=1) }}") == ['"<é>"']


def test_there_are_no_tools() -> None:
    assert render("{% if tools is none and not documents %}none{% endif %}") == ["none"]


def test_a_template_may_refuse_the_messages() -> None:
    with pytest.raises(BadRequest, match=r"refuses the messages: roles must alternate\."):
        render("{{ raise_exception('roles must alternate') }}")


ATTACKS = {
    "class": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ cycler.__init__.__globals__ }}",
    "append": "{{ messages.append(1) }}",
    "update": "{{ messages[0].update(role='system') }}",
    "format": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "attr": "{{ (messages | attr('__class__')).mro() }}",
}
FAULTS = {
    "syntax": "{% if %}",
    "undefined": "{{ bos_token + 'x' }}",
    "division": "{{ 1 / 0 }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "filter": "{{ 'x' | nothing }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}


@pytest.mark.parametrize("source", [*ATTACKS.values(), *FAULTS.values()], ids=[*ATTACKS, *FAULTS])
def test_faults_become_sentences(source: str) -> None:
    with pytest.raises(BadModel) as refused:
        render(source)
    sentence = str(refused.value)
    assert sentence.startswith("The chat template of folder fails (")
    assert sentence.endswith("); give raw prompts instead (chat=False, --raw).")
    assert "\n" not in sentence


@pytest.mark.parametrize("source", ATTACKS.values(), ids=ATTACKS)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(BadModel, match=r"SecurityError|is unsafe|is undefined"):
        render(source)


ENDLESS = {
    "silent loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubled list": (
        "{% set n = namespace(x=[]) %}{% for i in range(64) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
        "{{ n.x == n.x | list }}{{ n.x | tojson | length }}"
    ),
}
GREEDY = {
    "product": "{{ 'a' * 10 ** 10 }}",
    "filter": "{{ ('a' | center(10 ** 10)) | length }}",
    "doubled text": (
        "{% set n = namespace(x='a') %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    ),
    "long output": "{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of a process are Linux's")
@pytest.mark.parametrize("source", [*ENDLESS.values(), *GREEDY.values()], ids=[*ENDLESS, *GREEDY])
def test_time_and_memory_are_limited(source: str) -> None:
    started = time.monotonic()
    with pytest.raises(BadModel, match=r"does not come to an end|MemoryError|OverflowError|longer"):
        render(source)
    assert time.monotonic() - started < chat_template.WALL_SECONDS


def test_a_busy_machine_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "WALL_SECONDS", 0.01)
    with pytest.raises(BadModel, match="does not come to an end"):
        render("{{ 1 }}")


def test_a_long_reason_is_cut() -> None:
    with pytest.raises(BadRequest) as refused:
        render("{{ raise_exception('a' * 1000000) }}")
    assert len(str(refused.value)) < 400


def test_the_program_alone() -> None:
    request = {"source": "{{ messages[0].content }}", "names": {}, "conversations": [USER]}
    command = [sys.executable, "-P", template_child.__file__]
    data = json.dumps(request)
    done = subprocess.run(command, input=data, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == template_child.render(request) == ["hi"]


def run_main(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """The program in this process, without its limits."""
    request = {"source": source, "names": {}, "conversations": [USER]}
    monkeypatch.setattr(template_child, "limit_resources", lambda: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    template_child.main()


def test_what_the_program_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(monkeypatch, "{{ messages | tojson }}")
    assert json.loads(capsys.readouterr().out) == ['[{"role": "user", "content": "hi"}]']


@pytest.mark.parametrize(
    ("source", "code", "reason"),
    [
        ("{{ raise_exception('no\n') }}", template_child.REFUSED, "no\\n"),
        ("{{ 1 / 0 }}", template_child.FAILED, "ZeroDivisionError: division by zero"),
        ("{{ 'a' * 9000000 }}", template_child.FAILED, "ValueError: the text is longer than"),
    ],
)
def test_how_the_program_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    code: int,
    reason: str,
) -> None:
    with pytest.raises(SystemExit) as left:
        run_main(monkeypatch, source)
    said = capsys.readouterr()
    assert left.value.code == code
    assert said.err.startswith(reason)
    assert said.out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of a process are Linux's")
@pytest.mark.parametrize(("hard", "allowed"), [(-1, template_child.MEMORY), (1 << 20, 1 << 20)])
def test_limits_are_lowered_and_never_raised(
    monkeypatch: pytest.MonkeyPatch, hard: int, allowed: int
) -> None:
    kept: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (hard, hard))
    monkeypatch.setattr(resource, "setrlimit", kept.__setitem__)
    template_child.limit_resources()
    assert kept[resource.RLIMIT_AS] == (allowed, hard)
    assert kept[resource.RLIMIT_CPU] == (template_child.CPU_SECONDS, hard)


def test_the_program_needs_nothing_of_archer() -> None:
    source = Path(template_child.__file__).read_text()
    assert "import archer" not in source
    assert "from archer" not in source


# --- where the template comes from --------------------------------------------------------------


def test_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("file")
    template = read_template(tmp_path, {"chat_template": "config"}, {})
    assert template is not None
    assert template.source == "file"


def test_the_config_may_hold_it(tmp_path: Path) -> None:
    template = read_template(tmp_path, {"chat_template": "config"}, {"bos_token": "<s>"})
    assert template == ChatTemplate("config", {"bos_token": "<s>"}, str(tmp_path))


def test_the_config_may_hold_several(tmp_path: Path) -> None:
    rag, default = {"name": "rag", "template": "r"}, {"name": "default", "template": "d"}
    template = read_template(tmp_path, {"chat_template": [rag, default]}, {})
    assert template is not None
    assert template.source == "d"


def test_there_may_be_none(tmp_path: Path) -> None:
    write_json(tmp_path / "tokenizer_config.json", {})
    assert read_template(tmp_path, {}, {}) is None


def test_a_template_too_long(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(BadModel, match="larger than 1 MiB"):
        read_template(tmp_path, {}, {})
