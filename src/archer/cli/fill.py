"""`archer fill`: a text with gaps in, the whole text out."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from archer.cli.generate import DEFAULT_METHOD, DEFAULT_OUTPUT, answered, read_text
from archer.cli.numbers import Whole
from archer.cli.options import DEFAULT_MODEL, MethodOptions, ModelOptions, OutputOptions


def fill(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    *,
    gap: str = "{}",
    curve: tuple[float, float, float, float, float] | None = None,
    seed: Whole = 0,
    model: ModelOptions = DEFAULT_MODEL,
    method: MethodOptions = DEFAULT_METHOD,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> int:
    """Fill the gaps of a text.

    Args:
        file: A UTF-8 text file with gaps in it; - reads stdin.
        gap: How a gap is marked.
        curve: Five numbers by which the length of a gap is searched for, as archer study gap-length prints
            them [default: the published ones].
        seed: Seed of the noise at a temperature above 0.
    """
    from archer.request.fill import Fill

    entry = Fill.marked(read_text(file), gap)
    return answered([entry], model, method, output, whole=True, seed=seed, chat=False, curve=curve)
