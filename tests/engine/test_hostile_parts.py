"""Decoders, caches, listeners and callers that mean no good end their own requests and nobody else's."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from archer.decoders.saber import Saber
from archer.engine.handle import Listener
from archer.errors import ArcherError, BadRequest, PassFailed, words_of
from archer.methods.build import Method
from archer.model import Model
from archer.policies.prompt_cache import Archer
from server.running import on_a_thread
from support import hostile
from support.hostile import EarlyCache

LETHAL = [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, BaseException]
SOUND = [3, 1, 4]


class Hostile(Saber):
    """A decoder that raises in one of its verbs, once something was decoded."""

    def __init__(self, verb: str, kind: type[BaseException]) -> None:
        super().__init__()
        object.__setattr__(self, "verb", verb)
        object.__setattr__(self, "kind", kind)

    def _perhaps(self, verb: str, updates: int) -> None:
        if verb == self.verb and updates > 0:  # type: ignore[attr-defined]
            raise self.kind  # type: ignore[attr-defined]

    def canvas(self, state: Any) -> Any:
        self._perhaps("canvas", state.updates[0])
        return super().canvas(state)

    def step(self, state: Any, logits: Any) -> Any:
        self._perhaps("step", state.updates[0])
        return super().step(state, logits)


class HostileCache(Archer):
    """The same of a policy."""

    kind: type[BaseException]

    def recompute(self, canvas: Any, memory: Any) -> Any:
        if memory.anchored.all():
            raise self.kind
        return super().recompute(canvas, memory)


@pytest.mark.parametrize("kind", hostile.LETHAL)
@pytest.mark.parametrize("verb", [*hostile.VERBS, "cache"])
def test_what_a_part_raises_before_its_first_update_is_an_error_of_its_request(
    model: Model, verb: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a thread other than the main one, where no signal raises anything."""
    monkeypatch.setattr(EarlyCache, "kind", kind)
    raised = hostile.LETHAL[kind]
    expected = (ArcherError, raised) if issubclass(raised, MemoryError | ValueError) else PassFailed
    method: Any = "early" if verb != "cache" else Method(Saber(), EarlyCache(2), 8)
    named: dict[str, Any] = {"length": 8, "settings": {"verb": verb, "kind": kind}}
    settings = named if verb != "cache" else {}

    def ask() -> None:
        with model.engine() as engine:
            with pytest.raises(expected):
                engine.submit([5, 6], method, **settings).results()
            with pytest.raises(expected):
                model.generate([[5, 6]], method, **settings)
            assert engine.submit(SOUND, "saber", length=8).results()[0].tokens

    with hostile.brought():
        on_a_thread(ask)


class HostileListener(Listener):
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def stepped(self, step: Any) -> None:
        raise self.kind


def with_decoder(verb: str) -> Callable[[type[BaseException]], Method]:
    return lambda kind: Method(Hostile(verb, kind), Archer(2), 8)


def with_cache(kind: type[BaseException]) -> Method:
    made = type("Cache", (HostileCache,), {"kind": kind})
    return Method(Saber(), made(2), 8)


@pytest.mark.parametrize("kind", LETHAL)
@pytest.mark.parametrize(
    "hostile",
    [with_decoder("step"), with_decoder("canvas"), with_cache],
    ids=["step", "canvas", "cache"],
)
def test_what_a_part_raises_ends_its_own_request(
    model: Model, hostile: Callable[[type[BaseException]], Method], kind: type[BaseException]
) -> None:
    expected = model.generate([SOUND], "saber", length=8)[0].tokens
    with model.engine() as engine:
        wrong = engine.submit([5, 6], hostile(kind))
        right = engine.submit(SOUND, "saber", length=8)
        with pytest.raises(ArcherError):
            wrong.results()
        assert right.results()[0].tokens == expected
        assert engine.submit(SOUND, "saber", length=8).results()[0].tokens == expected


class Speechless(Exception):
    """An error that fails while it is asked what it says."""

    def __str__(self) -> str:
        raise SystemExit


class Refused(ArcherError):
    """The same of one that looks like the library's own."""

    def __str__(self) -> str:
        return str(self.missing)  # type: ignore[attr-defined]


def talkative() -> Exception:
    return ValueError("x" * 10**7)


@pytest.mark.parametrize("kind", [Speechless, Refused, talkative])
@pytest.mark.parametrize("verb", ["step", "canvas"])
def test_what_an_error_says_harms_nobody(model: Model, verb: str, kind: Any) -> None:
    with model.engine() as engine:
        wrong = engine.submit([5, 6], with_decoder(verb)(kind))
        with pytest.raises(ArcherError) as caught:
            wrong.results()
        assert len(words_of(caught.value)) < 500
        assert engine.submit(SOUND, "saber", length=8).results()[0].tokens


class Unhashable:
    """An owner that cannot even say why it is none."""

    def __hash__(self) -> int:
        raise TypeError("x" * 10**6)


@pytest.mark.parametrize("kind", LETHAL)
def test_a_listener_ends_its_own_request(model: Model, kind: type[BaseException]) -> None:
    with model.engine() as engine:
        wrong = engine.submit([5, 6], "saber", length=8, listener=HostileListener(kind))
        with pytest.raises(ArcherError):
            wrong.results()
        assert engine.submit(SOUND, "saber", length=8).results()[0].tokens


def test_on_the_main_thread_only_ctrl_c_passes(model: Model) -> None:
    with pytest.raises(PassFailed, match="raised SystemExit"):
        model.generate([SOUND], with_decoder("step")(SystemExit))
    with pytest.raises(KeyboardInterrupt):
        model.generate([SOUND], with_decoder("step")(KeyboardInterrupt))


@pytest.mark.parametrize("kind", [SystemExit, BaseException])
def test_a_thread_that_dies_ends_everything_at_once(
    model: Model, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong inside the turns themselves."""
    engine = model.engine()
    heard: list[ArcherError] = []
    engine.when_lost(heard.append)

    def die(*_: Any, **__: Any) -> bool:
        raise kind

    monkeypatch.setattr(engine._turns, "make", die)
    handle = engine.submit(SOUND, "saber", length=8)
    engine.start()
    with pytest.raises(ArcherError):
        handle.results()
    engine.close()
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"owner": []}, "An owner cannot be told from others"),
        ({"owner": ([],)}, "An owner cannot be told from others"),
        ({"owner": {}}, "An owner cannot be told from others"),
        ({"owner": Unhashable()}, "An owner cannot be told from others: xxx"),
        ({"n": 10**9}, "from 1 to 100000, not 1000000000"),
        ({"n": 0}, "n counts samples"),
        ({"n": "2"}, "n counts samples"),
        ({"n": 1.5}, "n counts samples"),
        ({"n": 257, "temperature": 1.0}, "at most 256"),
        ({"timeout": "soon"}, "timeout must be a number of seconds above 0, not 'soon'"),
        ({"timeout": float("nan")}, "timeout must be a number of seconds"),
        ({"timeout": 0.0}, "timeout must be a number of seconds above 0"),
        ({"queue_timeout": -1.0}, "queue_timeout must be a number"),
        ({"queue_timeout": [1]}, "queue_timeout must be a number"),
        ({"priority": "urgent"}, "There is no priority 'urgent'"),
        ({"priority": []}, r"There is no priority \[\]"),
        ({"priority": "x" * 10**6}, "There is no priority"),
    ],
)
def test_arguments_are_checked_in_the_caller_s_thread(
    model: Model, options: dict[str, Any], sentence: str
) -> None:
    with model.engine() as engine:
        with pytest.raises(BadRequest, match=sentence) as caught:
            engine.submit(SOUND, "saber", length=8, **options)
        assert len(str(caught.value)) < 400
        assert engine.submit(SOUND, "saber", length=8).results()[0].tokens


class Ended(BaseException):
    """What a signal's handler raises, as the command line does at SIGTERM."""


def test_a_signal_ends_the_program_and_not_a_request(model: Model) -> None:
    for prompts in ([SOUND], [SOUND, [5, 6]]):
        with pytest.raises(Ended):
            model.generate(prompts, with_decoder("step")(Ended))


def test_whoever_finds_a_thread_gone_second_finds_everything_ended(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = model.engine()
    heard: list[ArcherError] = []
    engine.when_lost(heard.append)
    gone = threading.Thread(target=lambda: None)
    gone.start()
    gone.join()
    handles = [engine.submit(SOUND, "saber", length=8) for _ in range(3)]
    monkeypatch.setattr(engine, "_thread", gone)
    for handle in handles:
        with pytest.raises(PassFailed, match="thread has ended"):
            handle.results()
    engine.close()
    assert len(heard) == 1


class Forgetful(Archer):
    """A policy that notes what it did not announce."""

    def noted(self, canvas: Any, memory: Any, full: Any, logits: Any) -> Any:
        return {"visits": full}


def test_a_note_that_was_not_announced_is_named(model: Model) -> None:
    with pytest.raises(PassFailed, match=r"noted 'visits' after a pass.*Name every note there"):
        model.generate([SOUND], Method(Saber(), Forgetful(2), 8))
