"""Chat messages -> the text a model was tuned on, by the template of the model folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from archer.errors import BadModel, BadRequest
from archer.loading.model_files import MEGABYTE, find, kind_of, read_text
from archer.loading.text.template_process import NoAnswer, TemplateProcess

FILE = "chat_template.jinja"
LONGEST_TEMPLATE = MEGABYTE

REMEDY = "give raw prompts instead (chat=False)"

Message = Mapping[str, str]


@dataclass(frozen=True)
class ChatTemplate:
    """A template and the token names it may use (`bos_token` and the like).

    Rendered in a process with limits that stays for many calls (see `template_process`).
    """

    source: str
    names: Mapping[str, str]
    where: str
    process: TemplateProcess = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "process", TemplateProcess(self.source, self.names))

    def render(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        """Each conversation as text that ends where the assistant's answer begins."""
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


def read_template(
    folder: Path, config: Mapping[str, object], names: Mapping[str, str]
) -> ChatTemplate | None:
    """The folder's template: its own file first, then the tokenizer's config; None without one."""
    path = find(folder, FILE)
    if path is not None:
        return ChatTemplate(read_text(path, LONGEST_TEMPLATE), names, str(path))
    where = str(folder)
    match config.get("chat_template"):
        case None:
            return None
        case str(source):
            return ChatTemplate(source, names, where)
        case [*choices]:
            for choice in choices:
                match choice:
                    case {"name": "default", "template": str(source)}:
                        return ChatTemplate(source, names, where)
            raise BadModel(f'{where}: none of its chat templates is named "default".')
        case other:
            raise BadModel(f"{where}: chat_template must be text, not {kind_of(other)}.")
