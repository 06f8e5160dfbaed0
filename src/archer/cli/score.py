"""`archer score`: how probable a model finds texts."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from archer.cli.generate import DEFAULT_METHOD, read_text
from archer.cli.numbers import MaybeWhole, Whole
from archer.cli.options import DEFAULT_MODEL, MethodOptions, ModelOptions
from archer.cli.output import Json, emit, write_text
from archer.errors import BadRequest
from archer.results.score import By


def score(
    *texts: str,
    prompt: str | None = None,
    prompt_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    by: By = "elbo",
    draws: MaybeWhole = None,
    seed: Whole = 0,
    cached: bool = False,
    raw: bool = False,
    model: ModelOptions = DEFAULT_MODEL,
    method: MethodOptions = DEFAULT_METHOD,
    json: Json = False,
) -> int:
    """Estimate how probable each text is as the answer to a prompt, in nats.

    Args:
        texts: Answers, each scored by itself.
        prompt: What they answer.
        prompt_file: The same from a UTF-8 text file; - reads stdin.
        by: The estimator; replay is exact for a decoder that takes nothing back (--method).
        draws: Looks at each text, for estimators that draw [default: 128 for elbo, else 1].
        seed: Seed of the draws.
        cached: Compute the prompt once for all looks at a text, which is not quite the same.
        raw: Use the prompt as it is, without the chat template.
    """
    if (prompt is None) == (prompt_file is None):
        raise BadRequest("Give the prompt either as --prompt or as --prompt-file.")
    if not texts:
        raise BadRequest("There is no text to score: archer score TEXT --prompt PROMPT.")
    given = prompt if prompt_file is None else read_text(prompt_file)
    chosen = method.chosen()
    loaded = model.load()
    scores = loaded.score(
        given or "",
        list(texts),
        by,
        draws=draws,
        seed=seed,
        cached=cached,
        chat=not raw,
        method=chosen.method or None,
        preset=chosen.preset,
        **chosen.settings,
    )
    result = {"model": loaded.name, "scores": [each.to_dict() for each in scores]}

    def show() -> None:
        for each, text in zip(scores, texts, strict=True):
            error = "" if not each.standard_error else f" ± {each.standard_error:.2g}"
            write_text(f"{each.log_likelihood:.4f}{error}  {text!r}")

    emit(result, show, json=json)
    return 0
