"""A shard that is not the first: it does what it is told, pass by pass, and decides nothing."""

from collections.abc import Sequence
from typing import Any

import torch

from archer.engine.footprint import empty_store
from archer.machine.threads import computing
from archer.network.group import Group
from archer.network.network import Transformer
from archer.passes.forward import Inputs, compute
from archer.passes.memory import Store
from archer.shards.message import Message
from archer.shards.one_shard import OneShard, PassLogits
from archer.shards.orders import PASS, parts_of


class Follower(OneShard):
    """The other side of `Leader`."""

    def __init__(self, group: Group, vocabulary: int, mask: int, network: Transformer) -> None:
        super().__init__(group, vocabulary, mask)
        self.network = network
        self._kept: dict[int, Store] = {}
        self._logits_of_passes: dict[int, PassLogits] = {}

    def follow(self, threads: int | None = None) -> None:
        """Until the first shard says that this is the end."""
        with torch.inference_mode(), computing(threads):
            while True:
                raw = self.group.hear()
                message = Message.decoded(raw)
                if message.kind == "end":
                    return
                for number in message.fields["dropped"]:
                    self._kept.pop(number, None)
                    self._logits_of_passes.pop(number, None)
                self._do(message, raw)

    def _do(self, message: Message, raw: bytes) -> None:
        fields = message.fields
        if message.kind == PASS:
            parts = list(parts_of(message, self._under, self.network.device))
            inputs = Inputs.of(parts, self.network.device)
            logits = self.pass_logits(raw, lambda: compute(self.network, inputs))
            self._logits_of_passes[fields["pass"]] = logits
        elif message.kind == "ask":
            rows = slice(*fields["rows"])
            self._logits_of_passes[fields["pass"]].answer(fields["question"], rows, fields["given"])
        else:
            self._copy(fields)

    def _copy(self, fields: Any) -> None:
        target, source = self._under(fields["target"]), self._under(fields["source"])
        slots = fields["slots"]
        target.take(source, None if slots is None else (slots[0], slots[1]))

    def _under(self, number: Sequence[int]) -> Store:
        """The store of a number, made where it is new."""
        name, slots, columns = number
        if name not in self._kept:
            self._kept[name] = empty_store(self.network, slots, columns)
        return self._kept[name]
