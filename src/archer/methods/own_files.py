"""Decoders and policies in a file of one's own: `./mine.py:Steady+archer:8`.

Such a name runs no code by itself.  Whoever has the right to, such as the command line for what its user
typed, brings the file first; from then on the name is one of the table.  So a name in a request to a server
or in a preset can never start a file.  A file stands alone: what it imports must be installed, because its
text is all that a run records and all that workers on other machines are given.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from archer.errors import BadRequest, cause_of, kind_and_cause, meant
from archer.files import utf8_text
from archer.methods.catalogue import Part
from archer.methods.extensions import Extended
from archer.methods.settings import DECODERS, POLICIES
from archer.methods.spelling import SPELLED, cut

MOST_BYTES = 1 << 20
"""Of a file."""


@dataclass(frozen=True)
class OwnPart:
    """A class in a file, with the text of that file: enough to bring it elsewhere."""

    name: str
    text: str
    is_policy: bool = False

    @property
    def file(self) -> str:
        return self.name.rpartition(":")[0]

    @property
    def digest(self) -> str:
        """sha256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def table(self) -> Extended[Part]:
        return POLICIES if self.is_policy else DECODERS

    def bring(self) -> None:
        """Run the file, unless its text has been run already, and put the class into its table."""
        if _BROUGHT.get((self.name, self.is_policy)) == self and self.name in self.table:
            return
        module = _run(self)
        member = getattr(module, self.name.rpartition(":")[2], None)
        if member is None:
            raise BadRequest(self._no_such_class(module))
        try:
            self.table.bring(self.name, member)
        except TypeError as error:
            raise BadRequest(f"{self.name} cannot be used: {cause_of(error)}.") from error
        _BROUGHT[self.name, self.is_policy] = self

    def _no_such_class(self, module: ModuleType) -> str:
        own = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        member = self.name.rpartition(":")[2]
        has = f" It has {', '.join(own)}." if own else " It has no class."
        return f"The file {self.file} has no class {member!r}.{meant(member, own)}{has}"


_BROUGHT: dict[tuple[str, bool], OwnPart] = {}
"""What has been brought, by name and kind."""


def bring(method: str | None) -> None:
    """Run the files that a method's name holds, as in ./mine.py:MyDecoder+archer:8; the name is then known.

    It runs their code, so it is only for names that the user has chosen.
    """
    for at, part in enumerate((method or "").split("+")):
        own = SPELLED.fullmatch(part)
        if own is not None:
            OwnPart(own["name"], _read(Path(own["file"])), is_policy=at > 0).bring()


def own_parts(method: str) -> Iterator[OwnPart]:
    """The parts of a method's name that were brought from files."""
    for at, part in enumerate(method.split("+")):
        brought = _BROUGHT.get((cut(part).name, at > 0))
        if brought is not None:
            yield brought


def digests(method: str) -> dict[str, str]:
    """The sha256 of every file that a method's name holds."""
    return {each.file: each.digest for each in own_parts(method)}


class _TextLoader(InspectLoader):
    """Runs a text that was read before, so that what runs is what was digested."""

    def __init__(self, part: OwnPart) -> None:
        self._part = part

    def get_source(self, fullname: str) -> str:
        return self._part.text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._part.text, self._part.file)


def _run(part: OwnPart) -> ModuleType:
    """The module of a file, made once for each text of it."""
    name = f"archer_own_{part.digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = _TextLoader(part)
    spec = spec_from_file_location(name, part.file, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadRequest(
            f"The file {part.file} cannot be used: it gives {kind_and_cause(error)}."
        ) from error
    return module


def _read(path: Path) -> str:
    text = utf8_text(path.read_bytes, f"The file {path}")
    if len(text.encode()) > MOST_BYTES:
        raise BadRequest(
            f"The file {path} is larger than {MOST_BYTES >> 20} MiB, which no part is."
        )
    return text
