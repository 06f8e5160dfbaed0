"""Options that the measurements share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from archer.cli.options import use_threads
from archer.cli.whole import MaybeWhole

if TYPE_CHECKING:
    from archer.bench.subject import Subject


@Parameter(name="*", group="Subject")
@dataclass(frozen=True)
class SubjectOptions:
    """What is measured, and where it runs."""

    shape: str | None = None
    """llada-8b, dream-7b, llada-moe-7b, llada2-mini or small with random weights; or a model."""
    layers: MaybeWhole = None
    """Layers to run; the first 2 of a large shape (3 of llada2-mini), all of a model."""
    device: str | None = None
    """Such as cpu or cuda:0; the accelerator if there is one."""
    dtype: str | None = None
    """float32, bfloat16, float16 or float64; bfloat16 on an accelerator, else float32."""
    threads: MaybeWhole = None
    """CPU threads; as many as there are cores."""

    def open(self, default: str, prompt: int, response: int) -> Subject:
        from archer.bench.subject import Room, open_subject

        if self.threads is not None:
            use_threads(self.threads)
        name = self.shape or default
        room = Room(prompt, response)
        return open_subject(name, self.layers, room, device=self.device, dtype=self.dtype)


def facts(bench: str, subject: Subject, **more: Any) -> dict[str, Any]:
    """What every result tells besides its rows."""
    from archer.machine.description import describe_torch

    return {
        "bench": bench,
        "shape": subject.name,
        "layers": subject.network.shape.layers,
        "depth": subject.depth,
        **more,
        "machine": describe_torch(subject.network.device, subject.network.dtype),
    }
