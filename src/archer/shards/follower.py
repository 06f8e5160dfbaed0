"""A shard that is not the first: it does what it is told, pass by pass, and decides nothing."""

from collections.abc import Sequence
from typing import Any

import torch

from archer.engine.footprint import empty_store
from archer.errors import ArcherError
from archer.loading.checkpoint import Folder
from archer.loading.new_weights import Staging
from archer.machine.threads import computing
from archer.network.group import Group
from archer.network.network import Transformer
from archer.passes.forward import Inputs, compute
from archer.passes.memory import Store
from archer.shards.message import Message
from archer.shards.one_shard import OneShard, PassLogits
from archer.shards.orders import PASS, questions_of


class Follower(OneShard):
    """The other side of `Leader`."""

    def __init__(self, group: Group, folder: Folder, network: Transformer) -> None:
        super().__init__(group, folder.shape.vocabulary, folder.mask)
        self.network = network
        self._folder = folder
        self._staging: Staging | None = None
        self._sound = True
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
            questions = list(questions_of(message, self._under, self.network.device))
            inputs = Inputs.of(questions, self.network.device)
            logits = self.pass_logits(raw, lambda: compute(self.network, inputs))
            self._logits_of_passes[fields["pass"]] = logits
        elif message.kind == "stage":
            self._stage(message)
        elif message.kind == "staged":
            self._agree()
        elif message.kind == "ask":
            rows = slice(*fields["rows"])
            self._logits_of_passes[fields["pass"]].answer(fields["question"], rows, fields["given"])
        else:
            self._copy(fields)

    def _stage(self, message: Message) -> None:
        """Make a new tensor ready; what is wrong with it is told when all of them are there."""
        fields, (numbers,) = message.fields, message.arrays
        tensor = torch.from_numpy(numbers).view(getattr(torch, fields["dtype"]))
        try:
            with torch.inference_mode(mode=False):
                self._staging = self._staging or Staging(
                    self.network, self._folder, self.group.shard
                )
                self._staging.add(
                    fields["name"], tensor.view(fields["shape"]).to(self.network.device)
                )
        except ArcherError:
            self._sound = False

    def _agree(self) -> None:
        """Take over what was made ready if all shards were able to."""
        staging, sound = self._staging, self._sound
        self._staging, self._sound = None, True
        try:
            if staging is not None and sound:
                with torch.inference_mode(mode=False):
                    staging.finish()
        except ArcherError:
            sound = False
        if all(each[0] for each in self.group.compare(bytes([sound]))) and staging is not None:
            staging.commit()

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
