"""Both sides of a check in one process: the program's and the test's, joined by a socket."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from archer.judge.inside import checker_side, program_side, wire
from archer.judge.inside.remote import Link, copy_into, raise_here

ORDER = {"entry_point": "f", "expose": None}


def judged(program: str, test: str, **order: Any) -> tuple[str, str, bool]:
    ours, theirs = socket.socketpair()
    side = threading.Thread(target=program_side.converse, args=(wire.Connection(theirs), program))
    side.start()
    try:
        with ours:
            return checker_side.judge(Link(wire.Connection(ours)), {**ORDER, **order, "test": test})
    finally:
        side.join()
        theirs.close()


def answered(*answers: bytes, kind: int = wire.ANSWER) -> tuple[str, str, bool]:
    """What a test makes of answers that come from nowhere; the first is for the loading."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for body in answers:
            theirs.sendall(wire.frame(kind, body))
        return checker_side.judge(
            Link(wire.Connection(ours)), {**ORDER, "test": "assert f(1) == 2"}
        )


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("def f(x): return x + 1", "def check(candidate):\n    assert candidate(1) == 2"),
        ("def f(*a, **k): return [a, k]", "assert f(1, b=2) == [(1,), {'b': 2}]"),
        ("def f(s): s.add(3)", "s = {1}\nf(s)\nassert s == {1, 3}"),
        ("def f(d): d['b'] = 2", "d = {'a': 1}\nf(d)\nassert d == {'a': 1, 'b': 2}"),
        ("def f(b): b.append(1)", "b = bytearray()\nf(b)\nassert b == b'\\x01'"),
        (
            "def f(q): q.append(1)",
            "from collections import deque\nq = deque()\nf(q)\nassert list(q) == [1]",
        ),
        ("def f(x): return iter([x, 2])", "assert list(f(1)) == [1, 2]"),
        ("def f(g): return g(1)\ndef h(x): return x", "assert f(h) == 1"),
        (
            "class f:\n    y = 1\n    def __getitem__(s, i): return i",
            "o = f()\nassert o.y == o[1] == 1",
        ),
        ("class E(KeyError): pass\ndef f(x): raise E('a')", "try: f(1)\nexcept KeyError: pass"),
        ("def f(x): return object()", "a = f(1)\nassert a and a != a and 'object' in repr(a)"),
    ],
)
def test_honest_programs_pass(program: str, test: str) -> None:
    assert judged(program, test) == ("pass", "", False)


@pytest.mark.parametrize(
    ("program", "test", "reason"),
    [
        ("def f(x): return x", "assert f(1) == 2", "AssertionError (line 1 of the test)"),
        ("x = 1", "f(1)", "NameError: name 'f' is not defined"),
        ("f = 5", "f(1)", "TypeError: 'int' object is not callable"),
        ("def f(", "f(1)", "SyntaxError"),
        ("def f(x): raise SystemExit(3)", "f(1)", "ProgramError: SystemExit 3"),
        ("def f(x): raise StopIteration", "f(1)", "RuntimeError: StopIteration"),
        ("def f(x): raise UnicodeDecodeError('a', b'', 0, 1, 'b')", "f(1)", "UnicodeError"),
        ("def f(x): return object()", "len(f(1))", "TypeError: object of type 'object' has no len"),
        ("def f(x): return object()", "f(1).__name__", "AttributeError"),
        ("def f(x): return 10 ** 5000", "raise ValueError(f(1))", "ValueError (line 1"),
        ("def f(x): return x", "assert f(1) == 1\nundefined", "NameError"),
        ("y = 5\ndef f(x): return x", "assert f(1) == 1\ny", "NameError: name 'y'"),
    ],
)
def test_failures_are_explained(program: str, test: str, reason: str) -> None:
    outcome, text, broken = judged(program, test)
    assert outcome == "fail"
    assert reason in text
    assert not broken


@pytest.mark.parametrize(
    "bodies",
    [
        (b"{", b""),
        (b"[]",),
        (b"{}", b'{"value": {"nothing": 1}}'),
        (b"{}", b'{"value": {"opaque": ["x", 1]}}'),
        (b"{}", b'{"value": {"opaque": 5}}'),
        (b"{}", b'{"value": 2, "arguments": {"set": [[]]}}'),
    ],
)
def test_malformed_answers_break_the_protocol(bodies: tuple[bytes, ...]) -> None:
    outcome, reason, broken = answered(*bodies)
    assert (outcome, broken) == ("fail", True)
    assert reason.startswith("The program sent")


def test_answers_of_the_wrong_kind_break_the_protocol() -> None:
    assert answered(b"{}", kind=wire.VERDICT)[::2] == ("fail", True)


def test_odd_but_well_formed_answers_are_merely_wrong() -> None:
    assert answered(b"{}", b"{}")[::2] == ("fail", False)
    assert answered(b'{"raised": 7}')[1] == "ProgramError: something  (raised by the program)"
    assert answered(b'{"raised": [3, "ValueError"], "message": 5}')[1].startswith("ValueError")
    assert answered(b'{"fault": "a whale"}')[:2] == ("fail", "The program answered with a whale.")


def test_a_swallowed_fault_still_counts() -> None:
    program = "def f(x):\n    a = []\n    a.append(a)\n    return a"
    outcome, reason, _ = judged(program, "try:\n    f(1)\nexcept BaseException:\n    pass")
    assert outcome == "fail"
    assert "deeper than" in reason
    outcome, _, _ = judged(
        program, "for _ in (1, 2):\n    try: f(1)\n    except BaseException: pass"
    )
    assert outcome == "fail"


def test_a_program_that_fails_to_load_fails_even_a_forgiving_test() -> None:
    for test in ("try:\n    f(1)\nexcept ValueError:\n    pass", "pass"):
        outcome, reason, broken = judged("raise ValueError('no')", test)
        assert (outcome, broken) == ("fail", False)
        assert reason == "ValueError: no (raised by the program)"


def test_what_only_a_test_can_get_wrong() -> None:
    assert judged("def f(x): pass", "f(print)")[0] == "harness_error"
    swallowed = "try:\n    f(print)\nexcept BaseException:\n    pass"
    assert judged("def f(x): pass", swallowed)[0] == "harness_error"
    outcome, reason, _ = judged("def f(x): pass", "assert f(1) == == 2")
    assert outcome == "fail"
    assert "the test does not compile" in reason


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [([1], [2], [2]), ({1: 2}, {}, {}), ({1}, {2}, {2}), ([1], (2,), [1]), ((1,), (2,), (1,))],
)
def test_only_like_is_copied_into_like(old: Any, new: Any, after: Any) -> None:
    copy_into(old, new)
    assert old == after


def test_an_exception_that_only_resembles_a_builtin_name() -> None:
    with pytest.raises(LookupError, match="gone"):
        raise_here(["MyError", "print", "LookupError"], "gone")


def test_an_answer_over_the_cap_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MESSAGE_BYTES", 1000)
    outcome, reason, broken = judged("def f(x): return 'x' * 2000", "f(1)")
    assert (outcome, broken) == ("fail", False)
    assert "an answer of 2012 bytes" in reason


@pytest.mark.parametrize(
    ("source", "code"), [("print(1)", 0), ("1 / 0", 1), ("import sys\nassert sys.argv", 0)]
)
def test_scripts_end_with_an_exit_code(
    source: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_main(monkeypatch)
    assert program_side.run_script(source) == code
    assert ("ZeroDivisionError" in capsys.readouterr().err) == (code == 1)


def test_a_script_may_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_main(monkeypatch)
    with pytest.raises(SystemExit):
        program_side.run_script("raise SystemExit(4)")


def keep_main(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", sys.argv)


def hostile_message() -> BaseException:
    class Mute(Exception):
        def __str__(self) -> str:
            raise KeyError

    return Mute()


@pytest.mark.parametrize("make", [hostile_message, lambda: ValueError("\udc80")])
def test_messages_that_cannot_be_had(make: Callable[[], BaseException]) -> None:
    def fail() -> None:
        raise make()

    answer = wire.loads(program_side.Program().answer(fail))
    assert answer["message"] in ("", "\\udc80")


def test_the_tests_rehearsal_leaves_nothing_open() -> None:
    checker_side.rehearse()
    assert checker_side.free_names(
        __import__("ast").parse("a = b\ntry: c\nexcept E as e: print(e)")
    ) == {
        "b",
        "c",
        "E",
    }
