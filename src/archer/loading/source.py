"""How to load a model, declared once, for commands, workers, shards and studies; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from archer.errors import BadRequest, quoted
from archer.network.shape import Scheme

if TYPE_CHECKING:
    import torch

    from archer.loading.checkpoint import Folder
    from archer.network.network import Transformer
    from archer.network.shard import Shard

    Device = str | torch.device | None
    Dtype = str | torch.dtype | None
else:  # what they are kept as, which the command line reads without torch
    Device = Dtype = str | None

MOST_SHARDS = 4096


def quantised_as(name: str) -> Scheme:
    """The scheme of this name; refuses one that there is not."""
    smaller = [scheme.value for scheme in Scheme if scheme is not Scheme.PLAIN]
    if name not in smaller:
        raise BadRequest(
            f"There is no quantisation {name!r} here. Choose one of {', '.join(smaller)}, or leave it out."
        )
    return Scheme(name)


@dataclass(frozen=True)
class Source:
    """Which checkpoint, and where and how it runs."""

    model: str | Path
    """Folder of a checkpoint, hub id such as GSAI-ML/LLaDA-8B-Instruct, or name of a bundled model."""
    _: KW_ONLY
    revision: str | None = None
    """Commit to load from the hub."""
    device: Device = None
    """Device, such as cpu or cuda:0 [default: the accelerator if there is one]."""
    dtype: Dtype = None
    """float32, bfloat16, float16 or float64 [default: bfloat16 on an accelerator, else float32]."""
    quantize: str | None = None
    """w8a8 computes the layers in eight bits, w8a8-head the vocabulary head too; int8 only stores the
    feed-forwards and experts in eight bits, except in the last layer; it saves memory but no time
    [default: off]."""
    threads: int | None = None
    """CPU threads [default: by the size of the network, 1 for small ones]."""
    compiled: bool = False
    """Compile the passes with torch.compile: slow at first, and needs a C++ compiler."""
    shards: int = 1
    """Split the network over this many processes, each with its own device."""
    family: str | None = None
    """Family of the model, as `archer models` lists them [default: what its files and its name tell]."""

    adapter: str | Path | Sequence[str] = ()
    """LoRA adapter to merge: a folder or a hub id; append @0.5 to give it a weight. May be repeated."""
    force_adapter: bool = False
    """Merge an adapter that by its name was trained for another kind of attention."""

    def __post_init__(self) -> None:
        """Folders, devices and dtypes may be given as objects; they are kept by their names."""
        given = (self.adapter,) if isinstance(self.adapter, str | Path) else self.adapter
        object.__setattr__(self, "adapter", tuple(map(str, given)))
        if isinstance(self.model, Path):
            path = str(self.model)
            named = path if self.model.is_absolute() or path.startswith(".") else f"./{path}"
            object.__setattr__(self, "model", named)
        for name in ("device", "dtype"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, str(value).removeprefix("torch."))

    @property
    def name(self) -> str:
        return str(self.model)

    @property
    def adapters(self) -> tuple[str, ...]:
        """Every adapter by its name."""
        several = () if isinstance(self.adapter, str | Path) else self.adapter
        return tuple(several)

    def check(self) -> None:
        """Refuse what no checkpoint can be loaded with, on whatever machine."""
        from archer.machine.devices import dtype_named
        from archer.machine.threads import check_threads

        if self.dtype is not None:
            dtype_named(self.dtype)
        if self.quantize is not None:
            quantised_as(self.quantize)
        if self.threads is not None:
            check_threads(self.threads)
        if self.shards not in range(1, MOST_SHARDS + 1):
            raise BadRequest(
                f"shards must be a whole number from 1 to {MOST_SHARDS}, not {quoted(self.shards)}."
            )
        if self.compiled and self.shards != 1:
            raise BadRequest(
                "Compiled passes cannot be divided over shards. Leave out one of the two."
            )

        if self.quantize is not None and Scheme(self.quantize).whole:
            for given, what in (
                (self.compiled, "compiled"),
                (self.shards != 1, "divided over shards"),
            ):
                if given:
                    raise BadRequest(
                        f"Passes in eight bits ({self.quantize}) cannot be {what}. Leave out one of the two, "
                        "or use int8."
                    )

    def folder(self) -> Folder:
        """The checkpoint, found and checked against this."""
        from archer.loading.checkpoint import read_folder
        from archer.loading.hub import locate

        self.check()
        folder = read_folder(locate(self.name, self.revision), self.name, self.family)
        if self.adapter:
            from archer.loading.adapters import with_adapters

            folder = with_adapters(folder, self.adapters, forced=self.force_adapter)
        if self.compiled and folder.shape.experts is not None:
            raise BadRequest(
                "torch.compile cannot follow rows to their experts. Leave compiled=True out."
            )
        return folder

    def place(self) -> tuple[torch.device, torch.dtype]:
        """Where and in what to compute; refuses what this machine cannot do."""
        from archer.machine.devices import place

        return place(self.device, self.dtype)

    def network(
        self,
        folder: Folder,
        shard: Shard | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Transformer:
        """With its weights; of a `shard` its own part.  `meanwhile` is called between tensors."""
        from archer.loading.checkpoint import load_network
        from archer.loading.weights import nothing

        device, dtype = self.place()
        network = load_network(
            folder,
            device=device,
            dtype=dtype,
            scheme=Scheme(self.quantize or Scheme.PLAIN),
            shard=shard,
            meanwhile=meanwhile or nothing,
        )
        network.compiled = self.compiled
        return network

    def outline(self, folder: Folder) -> Transformer:
        """Without weights, on torch's `meta` device; this machine need not have the source's own."""
        import torch

        from archer.machine.devices import default_device, dtype_on
        from archer.network.network import Transformer

        try:
            where = torch.device(self.device or default_device())
        except RuntimeError as error:
            raise BadRequest(
                f"There is no kind of device {str(self.device)!r}. Give one such as cpu or cuda."
            ) from error
        return Transformer(
            folder.shape,
            scheme=Scheme(self.quantize or Scheme.PLAIN),
            device=torch.device("meta"),
            dtype=dtype_on(where, self.dtype),
        )

    def pinned(self, folder: Folder) -> Source:
        """The same for other machines: a folder by its full path, a hub id by the commit that was read."""
        from archer.loading.hub import HUB_ID
        from archer.loading.model_files import is_folder

        adapters = tuple(
            str(Path(each).resolve()) if is_folder(Path(each.rpartition("@")[0] or each)) else each
            for each in self.adapters
        )
        source = replace(self, family=folder.architecture.family, adapter=adapters)
        if is_folder(Path(self.model)):
            return replace(source, model=str(Path(self.model).resolve()))
        if HUB_ID.fullmatch(self.name):
            return replace(source, revision=folder.path.name)
        return replace(self, adapter=adapters)

    def settled(self, folder: Folder) -> Source:
        """The same with nothing left to choose, for other processes of this machine."""
        from archer.machine.threads import fitting

        device, dtype = self.place()
        threads = self.threads
        if threads is None and device.type == "cpu":
            threads = fitting(folder.parameters, self.shards)
        return replace(
            self,
            model=str(folder.path),
            family=folder.architecture.family,
            revision=None,
            device=str(device),
            dtype=str(dtype),
            threads=threads,
        )
