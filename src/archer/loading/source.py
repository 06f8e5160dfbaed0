"""Where a worker gets its model: plain data that can be sent to another process or machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from archer.loading.hub import HUB_ID
from archer.loading.model_files import is_folder
from archer.model import Model, load, outline


@dataclass(frozen=True)
class Source:
    """A checkpoint by folder, hub id or bundled name, and how it is to compute."""

    model: str
    revision: str | None = None
    device: str | None = None
    dtype: str | None = None
    quantize: str | None = None
    threads: int | None = None
    compile: bool = False

    def load(self) -> Model:
        """With its weights, ready to compute in this process."""
        model = load(
            self.model,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            quantize=self.quantize,
            threads=self.threads,
            compiled=self.compile,
        )
        if model.threads is not None:
            torch.set_num_threads(model.threads)
        return model

    def outline(self) -> Model:
        """Without weights: enough to encode and to check, for whoever leaves the computing to others."""
        return outline(
            self.model,
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            quantize=self.quantize,
        )

    def pinned(self, known: Model) -> Source:
        """The same checkpoint for others: a folder by its full path, a hub id by the commit that is known."""
        if is_folder(Path(self.model)):
            return replace(self, model=str(Path(self.model).resolve()))
        if HUB_ID.fullmatch(self.model):
            return replace(self, revision=known.folder.path.name)
        return self
