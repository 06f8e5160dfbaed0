"""Archer: fast inference for diffusion language models, with decoders that may take tokens back.

    import archer
    model = archer.load("GSAI-ML/LLaDA-8B-Instruct")
    done = model.generate(["Write a haiku about rollback."])

Names are imported on first use, so that `import archer` does no work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archer.comparison import SideBySide, compare
    from archer.engine.generate import Stream
    from archer.errors import ArcherError, BadModel, BadRequest, Incompatible
    from archer.methods.build import Method, settings
    from archer.methods.own_files import bring
    from archer.methods.presets import read_preset
    from archer.model import Model, load
    from archer.request.fill import Fill
    from archer.results.completion import Completion
    from archer.results.notebook import Trace
    from archer.results.step import Step

__version__ = "0.1.0"

__all__ = [
    "ArcherError",
    "BadModel",
    "BadRequest",
    "Completion",
    "Fill",
    "Incompatible",
    "Method",
    "Model",
    "SideBySide",
    "Step",
    "Stream",
    "Trace",
    "__version__",
    "bring",
    "compare",
    "load",
    "read_preset",
    "settings",
]

_HOME = {
    "ArcherError": "errors",
    "BadModel": "errors",
    "BadRequest": "errors",
    "Completion": "results.completion",
    "Fill": "request.fill",
    "Incompatible": "errors",
    "Method": "methods.build",
    "Model": "model",
    "SideBySide": "comparison",
    "Step": "results.step",
    "Stream": "engine.generate",
    "Trace": "results.notebook",
    "bring": "methods.own_files",
    "compare": "comparison",
    "load": "model",
    "read_preset": "methods.presets",
    "settings": "methods.build",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'archer' has no attribute {name!r}")
    return getattr(import_module(f"archer.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
