"""Decoders, policies and tasks of others: by entry points, imported when named, or brought by the user."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from archer.errors import ArcherError, BadRequest, kind_and_cause

Entry = TypeVar("Entry")


class Extended(Mapping[str, Entry], Generic[Entry]):
    """A table of Archer's, and what others offer in `group`; `adopt` makes an entry, or raises TypeError."""

    def __init__(
        self, own: Mapping[str, Entry], group: str, adopt: Callable[[object], Entry]
    ) -> None:
        self.own, self.group = own, group
        self._adopt = adopt
        self._adopted: dict[str, Entry] = {}
        self._broken: dict[str, str] = {}
        self._brought: dict[str, Entry] = {}

    @cached_property
    def offers(self) -> dict[str, EntryPoint]:
        """What other packages offer under names that are still free."""
        points = entry_points(group=self.group)
        return {point.name: point for point in points if point.name not in self.own}

    def __getitem__(self, name: str) -> Entry:
        if name in self.own:
            return self.own[name]
        if name in self._brought:
            return self._brought[name]
        if name in self._broken:  # clients of a server may name it as often as they like
            raise BadRequest(self._broken[name])
        if name not in self._adopted:
            self._adopted[name] = self._load(self.offers[name])
        return self._adopted[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._brought or name in self.offers

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._brought
        yield from self.offers

    def __len__(self) -> int:
        return len(self.own) + len(self._brought) + len(self.offers)

    def bring(self, name: str, offered: object) -> None:
        """Put something of the user's own under a name that no package can have, until `forget`."""
        self._brought[name] = self._adopt(offered)

    def usable(self, tell: Callable[[str], object]) -> Iterator[tuple[str, Entry]]:
        """Every entry; if one from another package cannot be imported, the reason is reported instead."""
        for name in self:
            try:
                yield name, self[name]
            except ArcherError as error:
                tell(str(error))

    def forget(self) -> None:
        """Look again at the next use: packages may have come or gone."""
        self.__dict__.pop("offers", None)
        self._adopted.clear()
        self._broken.clear()
        self._brought.clear()

    def _load(self, point: EntryPoint) -> Entry:
        home = "" if point.dist is None else f" of the package {point.dist.name!r}"
        try:
            return self._adopt(point.load())
        except (Exception, SystemExit) as error:  # whatever a foreign module raises on import
            sentence = (
                f"{point.name!r}{home} cannot be used: {point.value} gives "
                f"{kind_and_cause(error)}. Mend or remove that package."
            )
            if not isinstance(error, OSError | MemoryError):  # those may pass
                self._broken[point.name] = sentence
            raise BadRequest(sentence) from error
