"""Chat messages -> the text a model was tuned on, by the template of the model folder.

One confined process renders a template for many requests; see `child_process`.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from archer.errors import BadModel, BadRequest
from archer.loading.model_files import MEGABYTE, find, kind_of, read_text
from archer.loading.text.child_process import ChildProcess, NoAnswer

FILE = "chat_template.jinja"
LONGEST_TEMPLATE = MEGABYTE
REMEDY = "give raw prompts instead (chat=False)"

Message = Mapping[str, str]


class SystemTurnMoved(UserWarning):
    """The model's template takes no system turns."""


@dataclass(frozen=True)
class ChatTemplate:
    """A template, its token names and variables; rendered in a process with limits that stays for long."""

    source: str
    names: Mapping[str, str]
    where: str
    variables: Mapping[str, object] = field(default_factory=dict)
    process: ChildProcess = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        opening = {"source": self.source, "names": self.names, "variables": dict(self.variables)}
        object.__setattr__(self, "process", ChildProcess(opening))

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
            case {"value": texts}:
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
