"""`archer lm-eval`: the lm-evaluation-harness's own command, with the model `archer` known to it."""

import sys
from typing import Annotated

from cyclopts import Parameter

from archer.errors import BadRequest, extra

NAME = "archer"
TARGET = "archer.integrations.lm_eval:ArcherLM"


def lm_eval(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Run the lm-evaluation-harness with the model `archer`.

    Harness releases up to 0.4.13 know their own models only; later ones find this one themselves.

    Args:
        arguments: Passed on as they are: run --model archer --model_args pretrained=... --tasks ...
    """
    try:
        import lm_eval.models  # noqa: F401  # its models first: the registry fills itself only when empty
        from lm_eval.__main__ import cli_evaluate
        from lm_eval.api.registry import model_registry
    except ImportError as error:
        raise BadRequest(
            f"The lm-evaluation-harness cannot be imported ({error}). "
            f"Install it: {extra('lm-eval')}."
        ) from error
    if NAME not in model_registry:
        model_registry.register(NAME, target=TARGET)
    before, sys.argv = sys.argv, ["lm_eval", *arguments]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
    return 0
