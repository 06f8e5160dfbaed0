"""The first shard: it runs the whole program and tells the others what to compute.

Decoders, policies, schedulers, clocks and sockets are here alone, so the shards cannot come to different
decisions; the others hold weights, keys and values, and make every pass and every reduction with it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from archer.errors import ArcherError, ShardLost, kind_and_cause, words_of
from archer.network.group import Group
from archer.passes.forward import Question
from archer.passes.memory import Store
from archer.passes.reduction import Peaks
from archer.shards.message import Message
from archer.shards.one_shard import OneShard, PassLogits
from archer.shards.orders import order

LEAVING = 5.0
"""Seconds that a pass on another thread may take to end when the model is closed."""


class Others(Protocol):
    """The processes of the other shards."""

    def fate(self) -> str | None:
        """A sentence about one that ended, if one did."""
        ...

    def close(self, *, goodbye: bool) -> None:
        """They are gone when this returns; `goodbye` says whether they were told."""
        ...


@dataclass(frozen=True, eq=False)
class Row:
    """The logits of one row; what `SplitLogits` promises."""

    leader: Leader
    number: int
    logits: PassLogits
    rows: slice

    @property
    def device(self) -> torch.device:
        return self.logits.values.device

    @property
    def peaks(self) -> Peaks:
        return self.logits.peaks[self.rows]

    def entropy(self) -> Tensor:
        return self._tensor("entropy")

    def second_best(self) -> Tensor:
        return self._tensor("second_best")

    def logit_of(self, tokens: Tensor) -> Tensor:
        return self._tensor("logit_of", tokens=tokens.tolist())

    def drawn(self, temperature: float, key: int, update: int) -> Tensor:
        return self._tensor("drawn", temperature=temperature, key=key, update=update)

    def likeliest(self, count: int) -> tuple[Tensor, Tensor]:
        logits, tokens = self.leader.ask(self, "likeliest", {"count": count})
        return logits, tokens

    def whole(self) -> Tensor:
        return self._tensor("whole")

    def _tensor(self, question: str, **given: Any) -> Tensor:
        answer: Tensor = self.leader.ask(self, question, given)
        return answer


class Leader(OneShard):
    """All shards, for the network of the first one."""

    def __init__(self, group: Group, vocabulary: int, mask: int, others: Others) -> None:
        super().__init__(group, vocabulary, mask)
        self._others = others
        self._talking = threading.Lock()
        self._failed: ShardLost | None = None
        self._heirs: list[Callable[[ShardLost], None]] = []
        self._closed = False
        self._count = 0
        self._stores: dict[int, int] = {}
        self._dropped: deque[int] = deque()

    @property
    def shards(self) -> int:
        return self.group.shard.of

    def make_pass(
        self, questions: Sequence[Question], compute: Callable[[], Tensor]
    ) -> Callable[[slice], Row]:
        number = self._next()
        with self._together(order(questions, number, self._number)) as raw:
            logits = self.pass_logits(raw, compute)
        self._drop_with(logits, number)
        return lambda rows: Row(self, number, logits, rows)

    def ask(self, row: Row, question: str, given: dict[str, Any]) -> Any:
        about = {"pass": row.number, "rows": [row.rows.start, row.rows.stop]}
        with self._together(Message("ask", {"question": question, "given": given, **about})):
            return row.logits.answer(question, row.rows, given)

    def copied(self, target: Store, source: Store, slots: tuple[int, int] | None) -> None:
        numbers = {"target": self._number(target), "source": self._number(source)}
        with self._together(Message("copy", {**numbers, "slots": slots})):
            pass

    def stage(self, name: str, tensor: Tensor) -> None:
        numbers = tensor.cpu().contiguous()
        about = {"name": name, "dtype": str(numbers.dtype).removeprefix("torch.")}
        plain = numbers.view(-1).view(torch.uint8).numpy()
        message = Message("stage", {**about, "shape": list(numbers.shape)}, (plain,))
        with self._together(message):
            pass

    def agree_to_stage(self, *, sound: bool) -> bool:
        with self._together(Message("staged", {})):
            return all(answer[0] for answer in self.group.compare(bytes([sound])))

    def when_lost(self, call: Callable[[ShardLost], None]) -> None:
        self._heirs.append(call)
        if self._failed is not None:
            call(self._failed)

    def lose(self, sentence: str) -> ShardLost:
        """A shard is lost: from now on every use of the model raises this; the first sentence stands."""
        if self._failed is None:
            self._failed = ShardLost(sentence)
            for call in self._heirs:
                call(self._failed)
        return self._failed

    def close(self) -> None:
        """Let the others go; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._heirs.clear()
        goodbye = self._say_goodbye()
        self.lose("This model was closed. Load it again.")
        self._others.close(goodbye=goodbye)
        self.group.leave()

    def _say_goodbye(self) -> bool:
        """Tell the others that this is the end; whether they can have heard it."""
        if self._failed is not None or not self._talking.acquire(timeout=LEAVING):
            return False
        try:
            self.group.tell(Message("end", {}).encoded())
        except ShardLost:
            return False
        finally:
            self._talking.release()
        return True

    @contextmanager
    def _together(self, message: Message) -> Iterator[bytes]:
        """Send a message and compute with the others; whatever fails halfway is the end for all."""
        with self._talking:
            if self._failed is not None:
                raise self._failed
            dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
            fields = {**message.fields, "dropped": dropped}
            raw = Message(message.kind, fields, message.arrays).encoded()
            try:
                self.group.tell(raw)
                self.group.computing = True
                yield raw
            except Exception as error:
                raise self.lose(self._reason(error)) from error
            except BaseException:
                self.lose("The shards were interrupted in a pass. Load the model again.")
                raise
            finally:
                self.group.computing = False

    def _reason(self, error: Exception) -> str:
        if isinstance(error, ArcherError):
            fate = self._others.fate() if isinstance(error, ShardLost) else None
            return fate or words_of(error)
        return (
            f"A pass of the shards failed on the first of them ({kind_and_cause(error)}). "
            "Start it again."
        )

    def _number(self, store: Store) -> list[int]:
        """A store's number and its size; the others make one when they first hear of it."""
        if id(store) not in self._stores:
            self._stores[id(store)] = number = self._next()
            self._drop_with(store, number)
            weakref.finalize(store, self._stores.pop, id(store)).atexit = False
        return [self._stores[id(store)], store.keys.shape[1], store.keys.shape[3]]

    def _next(self) -> int:
        """A number for something that all shards have."""
        self._count += 1
        return self._count

    def _drop_with(self, thing: PassLogits | Store, number: int) -> None:
        """When it is gone here the others are told."""
        weakref.finalize(thing, self._dropped.append, number).atexit = False
