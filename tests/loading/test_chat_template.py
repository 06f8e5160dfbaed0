"""Chat templates: what they give, and that a bad one does no harm."""

import gc
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archer.errors import BadModel, BadRequest
from archer.loading.text import child_process, text_child
from archer.loading.text.chat_template import ChatTemplate, SystemTurnMoved, read_template
from support.folders import write_json
from support.processes import alive, descriptors

USER = [{"role": "user", "content": "hi"}]


def render(source: str, *conversations: Any, **names: str) -> list[str]:
    return ChatTemplate(source, names, "folder").render(conversations or [USER])


RENDERED = {
    "messages, names and the generation prompt": (
        "{{ bos_token }}{% for m in messages %}{{ m['role'] }}={{ m.content | trim }};{% endfor %}"
        "{% if add_generation_prompt %}assistant={% endif %}",
        "<s>user=hi;assistant=",
    ),
    "no blank lines from blocks": ("a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"),
    "loop controls": (
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "01",
    ),
    "plain json": ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
    "indented json": ("{{ '<é>' | tojson(indent=1) }}", '"<é>"'),
    "no tools": ("{% if tools is none and not documents %}none{% endif %}", "none"),
}


@pytest.mark.parametrize(("source", "text"), RENDERED.values(), ids=RENDERED)
def test_what_templates_give(source: str, text: str) -> None:
    assert render(source, bos_token="<s>") == [text]


def test_many_conversations_at_once() -> None:
    other = [{"role": "user", "content": "ho"}, {"role": "assistant", "content": "\ud800é"}]
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert render(source, USER, other) == ["hi", "ho\ud800é"]


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
    assert sentence.endswith("); give raw prompts instead (chat=False).")
    assert "\n" not in sentence
    if source in ATTACKS.values():
        assert re.search(r"SecurityError|is unsafe|is undefined", sentence), "the sandbox holds"


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
    assert time.monotonic() - started < child_process.WALL_SECONDS


def test_a_busy_machine_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "WALL_SECONDS", 0.01)
    with pytest.raises(BadModel, match="does not come to an end"):
        render("{{ 1 }}")


def test_a_long_reason_is_cut() -> None:
    with pytest.raises(BadRequest) as refused:
        render("{{ raise_exception('a' * 1000000) }}")
    assert len(str(refused.value)) < 400


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def answered(
    monkeypatch: pytest.MonkeyPatch, source: str, *requests: list[Any]
) -> list[dict[str, Any]]:
    """The program in this process, without its limits."""
    monkeypatch.setattr(text_child, "limit_memory", lambda _: None)
    monkeypatch.setattr(text_child, "limit_computing", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    said = lines({"source": source, "names": {}}, *(requests or [[USER]]))
    monkeypatch.setattr(sys, "stdin", io.StringIO(said))
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    text_child.main()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        ("{{ raise_exception('no\n') }}", "refused", "no\\n"),
        ("{{ raise_exception('') }}", "refused", "no reason given"),
        ("{{ 1 / 0 }}", "failed", "ZeroDivisionError: division by zero"),
        ("{{ 'a' * 9000000 }}", "failed", "ValueError: the text is longer than"),
        ("{% if %}", "failed", "TemplateSyntaxError: "),
    ],
)
def test_how_the_program_fails(
    monkeypatch: pytest.MonkeyPatch, source: str, kind: str, reason: str
) -> None:
    replies = answered(monkeypatch, source, [USER], [USER])
    assert replies[0] == replies[1]
    assert replies[0][kind].startswith(reason)
    assert set(replies[0]) == {kind, "last"}


def test_the_program_asks_to_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_child, "MOST_REQUESTS", 3)
    replies = answered(monkeypatch, "{{ 1 }}", *[[USER]] * 3)
    assert [reply["last"] for reply in replies] == [False, False, True]

    def exhausted(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(text_child, "compiled", exhausted)
    assert answered(monkeypatch, "{{ 1 }}") == [{"failed": "MemoryError: ", "last": True}]


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of a process are Linux's")
@pytest.mark.parametrize(("hard", "worn"), [(-1, False), (10**6, False), (4, True)])
def test_a_process_with_little_computing_left_is_renewed(
    monkeypatch: pytest.MonkeyPatch, hard: int, worn: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (hard, hard))
    monkeypatch.setattr(time, "process_time", lambda: 1.5)
    assert text_child.no_computing_left() == worn


def test_other_systems_have_a_clock_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "setrlimit", fail)
    text_child.limit_memory(text_child.MEMORY)
    text_child.limit_computing(text_child.CPU_SECONDS)
    assert not text_child.no_computing_left()


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of a process are Linux's")
@pytest.mark.parametrize(("hard", "allowed"), [(-1, text_child.MEMORY), (1 << 20, 1 << 20)])
def test_limits_are_lowered_and_never_raised(
    monkeypatch: pytest.MonkeyPatch, hard: int, allowed: int
) -> None:
    kept: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (hard, hard))
    monkeypatch.setattr(resource, "setrlimit", kept.__setitem__)
    monkeypatch.setattr(time, "process_time", lambda: 40.3)
    text_child.limit_memory(text_child.MEMORY)
    text_child.limit_computing(text_child.CPU_SECONDS)
    assert kept[resource.RLIMIT_AS] == (allowed, hard)
    assert kept[resource.RLIMIT_CPU] == (41 + text_child.CPU_SECONDS, hard)


def test_the_program_needs_nothing_of_archer() -> None:
    source = Path(text_child.__file__).read_text()
    assert "import archer" not in source
    assert "from archer" not in source


# --- the process that stays ---------------------------------------------------------------------

ECHO = "{{ messages[0].content }}"


def said(text: str) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}]]


@pytest.fixture
def echo() -> Iterator[ChatTemplate]:
    """Says what it is told; kills its process, hangs, fails or fills the memory when asked to."""
    source = (
        "{% set word = messages[0].content %}"
        "{% if word == 'loop' %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
        "{% endfor %}{% elif word == 'fail' %}{{ 1 / 0 }}"
        "{% elif word == 'refuse' %}{{ raise_exception('no') }}"
        "{% elif word == 'fill' %}{{ 'a' * 10 ** 10 }}{% else %}{{ word }}{% endif %}"
    )
    template = ChatTemplate(source, {}, "folder")
    yield template
    template.process.close()


def lives(pid: int | None) -> bool:
    """Also as a zombie."""
    assert pid is not None
    return Path(f"/proc/{pid}").exists()


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")


def test_faults_of_a_template_leave_the_process_alone(echo: ChatTemplate) -> None:
    echo.render(said("hi"))
    pid = echo.process.pid
    with pytest.raises(BadModel, match="division by zero"):
        echo.render(said("fail"))
    with pytest.raises(BadRequest, match="refuses the messages: no"):
        echo.render(said("refuse"))
    assert echo.render(said("ho")) == ["ho"]
    assert echo.process.pid == pid


@needs_proc
@pytest.mark.parametrize("word", ["loop", "fill"])
def test_a_request_that_ends_the_process_is_refused_alone(echo: ChatTemplate, word: str) -> None:
    assert echo.render(said("hi")) == ["hi"]
    pid = echo.process.pid
    with pytest.raises(BadModel, match=r"does not come to an end|MemoryError"):
        echo.render(said(word))
    assert not lives(pid)
    assert echo.process.pid is None
    assert echo.render(said("ho")) == ["ho"]
    assert echo.process.pid != pid


def test_a_request_that_hangs_is_refused_alone(
    echo: ChatTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo.render(said("hi"))
    pid = echo.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(child_process, "WALL_SECONDS", 0.1)
    with pytest.raises(BadModel, match="does not come to an end"):
        echo.render(said("x" * 1_000_000))
    monkeypatch.undo()
    assert echo.render(said("ho")) == ["ho"]


@needs_proc
def test_a_process_that_died_is_replaced(echo: ChatTemplate) -> None:
    echo.render(said("hi"))
    pid = echo.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while alive(pid):
        time.sleep(0.001)
    assert echo.render(said("ho")) == ["ho"]
    assert not lives(pid)


def test_a_process_that_fails_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_child, "__file__", "no such file")
    with pytest.raises(BadModel, match=r"fails \(no reason given\)"):
        render("{{ 1 }}")


def test_a_process_that_closes_its_output_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "child.py"
    program.write_text("import os, time\nos.close(1)\ntime.sleep(60)\n")
    monkeypatch.setattr(text_child, "__file__", str(program))
    monkeypatch.setattr(child_process, "LEAVING_SECONDS", 0.01)
    with pytest.raises(BadModel, match="does not come to an end"):
        render("{{ 1 }}")


@needs_proc
def test_it_is_renewed_when_it_asks_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "child.py"
    source = Path(text_child.__file__).read_text()
    program.write_text(source.replace("MOST_REQUESTS = 500", "MOST_REQUESTS = 3"))
    monkeypatch.setattr(text_child, "__file__", str(program))
    template = ChatTemplate(ECHO, {}, "folder")
    pids = []
    for number in range(7):
        assert template.render(said(str(number))) == [str(number)]
        pids.append(template.process.pid)
    assert [pid is None for pid in pids] == [False, False, True] * 2 + [False]
    assert len(set(pids) - {None}) == 3
    template.process.close()
    assert not any(lives(pid) for pid in pids if pid is not None)


@needs_proc
def test_nothing_is_left_when_the_template_is_gone() -> None:
    gc.collect()
    before = descriptors()
    template = ChatTemplate(ECHO, {}, "folder")
    template.render(said("hi"))
    pid = template.process.pid
    assert lives(pid)
    assert descriptors() == before + 2
    del template
    gc.collect()
    assert not lives(pid)
    assert descriptors() == before


KEPT = (
    "import os, signal\n"
    "from archer.loading.text.chat_template import ChatTemplate\n"
    "kept = ChatTemplate('x', {}, 'folder')\n"
    "kept.render([[]])\n"
    "print(kept.process.pid, flush=True)\n"
)


@needs_proc
def test_nothing_is_left_when_the_program_ends() -> None:
    command = [sys.executable, "-W", "error", "-c", KEPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not lives(int(done.stdout))


@needs_proc
def test_it_ends_when_the_program_is_killed() -> None:
    code = KEPT + "os.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid, ends = int(done.stdout), time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_many_threads_share_it(echo: ChatTemplate) -> None:
    wrong: list[str] = []
    pids: set[int | None] = set()
    assert echo.process.pid is None

    def work(name: int) -> None:
        for number in range(25):
            text = f"{name}-{number}" * (name + 1)
            if echo.render(said(text)) != [text]:
                wrong.append(text)
            pids.add(echo.process.pid)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(pids) == 1


def test_an_interrupted_request_leaves_no_answer_for_the_next(
    echo: ChatTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    echo.render(said("hi"))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Timer, "cancel", interrupt)
        with pytest.raises(KeyboardInterrupt):
            echo.render(said("lost"))
    assert echo.render(said("ho")) == ["ho"]


@needs_proc
def test_a_forked_program_gets_a_process_of_its_own(echo: ChatTemplate) -> None:
    """What it inherits still serves the program that started it."""
    echo.render(said("hi"))
    pid = echo.process.pid
    code = (
        "import os, sys\n"
        "from archer.loading.text.chat_template import ChatTemplate\n"
        "kept = ChatTemplate('{{ messages[0] }}', {}, 'folder')\n"
        "assert kept.render([['a']]) == ['a']\n"
        "mine = kept.process.pid\n"
        "if not os.fork():\n"
        "    good = kept.render([['b']]) == ['b'] and kept.process.pid != mine\n"
        "    sys.exit(0 if good else 1)\n"
        "_, code = os.wait()\n"
        "assert code == 0\n"
        "assert kept.render([['c']]) == ['c']\n"
        "assert kept.process.pid == mine\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert echo.process.pid == pid


# --- where the template comes from --------------------------------------------------------------


RAG, DEFAULT = {"name": "rag", "template": "r"}, {"name": "default", "template": "d"}


@pytest.mark.parametrize(
    ("file", "config", "source"),
    [("file", "config", "file"), (None, "config", "config"), (None, [RAG, DEFAULT], "d")],
    ids=["a file of its own comes first", "the config", "one of several"],
)
def test_where_the_template_comes_from(
    tmp_path: Path, file: str | None, config: object, source: str
) -> None:
    where = tmp_path
    if file is not None:
        where = tmp_path / "chat_template.jinja"
        where.write_text(file)
    template = read_template(tmp_path, {"chat_template": config}, {"bos_token": "<s>"}, {})
    assert template == ChatTemplate(source, {"bos_token": "<s>"}, str(where))


def test_there_may_be_none(tmp_path: Path) -> None:
    write_json(tmp_path / "tokenizer_config.json", {})
    assert read_template(tmp_path, {}, {}, {}) is None


def test_a_template_too_long(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(BadModel, match="larger than 1 MiB"):
        read_template(tmp_path, {}, {}, {})


NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + ECHO
)


def test_a_template_without_system_turns_gets_their_text_with_the_first_users() -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    template = ChatTemplate(NO_SYSTEM, {}, "folder")
    with pytest.warns(SystemTurnMoved, match="takes no system turns"):
        (moved,) = template.render([asked])
    assert moved == template.render([[{"role": "user", "content": "Be brief.\n\nHello"}]])[0]
    with pytest.raises(BadRequest, match="System role not supported"):
        template.render([[asked[0]]])


def test_a_template_is_given_the_variables_of_its_family() -> None:
    source = "{% if enable_thinking is false %}short{% else %}long{% endif %}"
    assert ChatTemplate(source, {}, "folder", {"enable_thinking": False}).render([USER]) == [
        "short"
    ]
    assert ChatTemplate(source, {}, "folder").render([USER]) == ["long"]
