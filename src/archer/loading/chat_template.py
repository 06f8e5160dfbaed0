"""Chat messages -> the text a model was tuned on, by the template of the model folder."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from archer.errors import BadModel, BadRequest
from archer.loading import template_child
from archer.loading.model_files import MEGABYTE, find, kind_of, read_text

FILE = "chat_template.jinja"
LONGEST_TEMPLATE = MEGABYTE
WALL_SECONDS = 30.0
"""Far beyond the limit on computing, so that a busy machine is not mistaken for a bad template."""

REMEDY = "give raw prompts instead (chat=False, --raw)"

Message = Mapping[str, str]


@dataclass(frozen=True)
class ChatTemplate:
    """A template and the token names it may use (`bos_token` and the like).

    Rendered in a process with limits (see `template_child`), so one call with many conversations is
    much cheaper than many calls.
    """

    source: str
    names: Mapping[str, str]
    where: str

    def render(self, conversations: Sequence[Sequence[Message]]) -> list[str]:
        """Each conversation as text that ends where the assistant's answer begins."""
        request = {"source": self.source, "names": self.names, "conversations": conversations}
        command = [sys.executable, "-P", template_child.__file__]
        data = json.dumps(request).encode("ascii")
        try:
            done = subprocess.run(command, input=data, capture_output=True, timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise self._endless() from error
        reason = done.stderr.decode("ascii", "replace").strip() or "no reason given"
        if done.returncode == template_child.REFUSED:
            raise BadRequest(f"The chat template of {self.where} refuses the messages: {reason}.")
        if done.returncode < 0:
            raise self._endless()
        if done.returncode:
            raise BadModel(f"The chat template of {self.where} fails ({reason}); {REMEDY}.")
        texts: list[str] = json.loads(done.stdout)
        return texts

    def _endless(self) -> BadModel:
        return BadModel(f"The chat template of {self.where} does not come to an end; {REMEDY}.")


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
