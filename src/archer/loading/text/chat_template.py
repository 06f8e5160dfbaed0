"""Chat messages -> the text a model was tuned on, by the template of the model folder.

One confined process renders a template for many requests.  It is started by the first one, asked by one
thread at a time, replaced when it is worn out or dead, and ended with its template or with the interpreter.
A request that kills it, or that gets no answer in time, is refused alone: the next one gets a new process.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from archer.errors import BadModel, BadRequest
from archer.loading.model_files import MEGABYTE, find, kind_of, read_text
from archer.loading.text import template_child

FILE = "chat_template.jinja"
LONGEST_TEMPLATE = MEGABYTE
WALL_SECONDS = 30.0
"""Far beyond the limit on computing, so that a busy machine is not mistaken for a bad template."""
LEAVING_SECONDS = 1.0
"""How long a process that has closed its output may take to end."""

Child = subprocess.Popen[bytes]

REMEDY = "give raw prompts instead (chat=False)"

Message = Mapping[str, str]


class SystemTurnMoved(UserWarning):
    """The model's template takes no system turns."""


class NoAnswer(Exception):
    """The process ended, or was ended, before it answered."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.killed = code < 0
        """By a limit or by the clock; otherwise it failed by itself."""


class TemplateProcess:
    """Renders by `template_child`; safe to use from several threads."""

    def __init__(
        self, source: str, names: Mapping[str, str], variables: Mapping[str, object]
    ) -> None:
        self._template = _line({"source": source, "names": names, "variables": dict(variables)})
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._child: Child | None = None
        self._end: weakref.finalize[..., TemplateProcess] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that waits for requests; None while there is none."""
        return None if self._child is None else self._child.pid

    def ask(self, conversations: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, Any]:
        """The reply to one request."""
        if self._owner != os.getpid():
            self._forget()
        with self._lock:
            try:
                reply = self._exchange(_line(conversations))
            except BaseException:
                self._stop()
                raise
            if reply["last"]:
                self._stop()
            return reply

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._stop()

    def _exchange(self, request: bytes) -> dict[str, Any]:
        child, pipes, fresh = self._running()
        clock = threading.Timer(WALL_SECONDS, child.kill)
        clock.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                pipes[0].write(self._template + request if fresh else request)
                pipes[0].flush()
            answer = pipes[1].readline()
        finally:
            clock.cancel()
        if not answer.endswith(b"\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise NoAnswer(child.wait(LEAVING_SECONDS))
            raise NoAnswer(-1)
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def _running(self) -> tuple[Child, tuple[IO[bytes], IO[bytes]], bool]:
        """A process that lives, its input and output, and whether it is new."""
        fresh = self._child is None or self._child.poll() is not None
        if fresh:
            self._stop()
            command = [sys.executable, "-P", template_child.__file__]
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._end = weakref.finalize(self, _ended, self._child, self._owner)
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        return child, (child.stdin, child.stdout), fresh

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _forget(self) -> None:
        """In a process that was forked off: leave the renderer to the one that started it."""
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._stop()


def _ended(child: Child, owner: int) -> None:
    """No process and no descriptor is left; a process of another owner stays."""
    if os.getpid() == owner:
        child.kill()
        child.wait()
    else:
        child.returncode = 0
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@dataclass(frozen=True)
class ChatTemplate:
    """A template, its token names and variables; rendered in a process with limits that stays for long."""

    source: str
    names: Mapping[str, str]
    where: str
    variables: Mapping[str, object] = field(default_factory=dict)
    process: TemplateProcess = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "process", TemplateProcess(self.source, self.names, self.variables)
        )

    def render(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        """Each conversation as text that ends where the assistant's answer begins.

        A template that takes no system turns gets their text before the first user's, which is said.
        """
        try:
            return self._rendered(conversations)
        except BadRequest:
            merged = [_without_system(each) for each in conversations]
            if merged == [list(each) for each in conversations]:
                raise
        texts = self._rendered(merged)
        warnings.warn(
            f"The chat template of {self.where} takes no system turns; the text of the system turn stands "
            "before that of the first user turn.",
            SystemTurnMoved,
            stacklevel=2,
        )
        return texts

    def _rendered(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        try:
            reply = self.process.ask(conversations)
        except NoAnswer as error:
            if error.killed:
                raise BadModel(
                    f"The chat template of {self.where} does not come to an end; {REMEDY}."
                ) from error
            raise self._failure("no reason given") from error
        match reply:
            case {"texts": texts}:
                return list(texts)
            case {"refused": reason}:
                raise BadRequest(
                    f"The chat template of {self.where} refuses the messages: {reason}."
                )
            case _:
                raise self._failure(reply["failed"])

    def _failure(self, reason: str) -> BadModel:
        return BadModel(f"The chat template of {self.where} fails ({reason}); {REMEDY}.")


def _without_system(conversation: Sequence[Message]) -> list[Message]:
    """The text of leading system turns before that of the user turn that follows, an empty line between."""
    messages = list(conversation)
    first = next((at for at, each in enumerate(messages) if each["role"] != "system"), 0)
    if not first or messages[first]["role"] != "user":
        return messages
    texts = [each["content"] for each in messages[: first + 1]]
    return [{"role": "user", "content": "\n\n".join(texts)}, *messages[first + 1 :]]


def read_template(
    folder: Path,
    config: Mapping[str, object],
    names: Mapping[str, str],
    variables: Mapping[str, object],
) -> ChatTemplate | None:
    """The folder's template: its own file first, then the tokenizer's config; None without one."""
    path = find(folder, FILE)
    if path is not None:
        return ChatTemplate(read_text(path, LONGEST_TEMPLATE), names, str(path), variables)
    where = str(folder)
    match config.get("chat_template"):
        case None:
            return None
        case str(source):
            return ChatTemplate(source, names, where, variables)
        case [*choices]:
            for choice in choices:
                match choice:
                    case {"name": "default", "template": str(source)}:
                        return ChatTemplate(source, names, where, variables)
            raise BadModel(f'{where}: none of its chat templates is named "default".')
        case other:
            raise BadModel(f"{where}: chat_template must be text, not {kind_of(other)}.")


def _line(value: object) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
