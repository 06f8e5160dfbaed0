"""How probable a model finds a text: what `Model.score` returns for each."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from archer.files import finite

By: TypeAlias = Literal["elbo", "one-step", "coupled", "confidence", "replay"]
"""The estimators."""
LARGEST_EXPONENT = 709.0
"""Of a number that float64 holds."""


@dataclass(frozen=True)
class TextScore:
    """An estimate of the log-likelihood of one text, in nats; `by` says of what kind."""

    log_likelihood: float
    standard_error: float | None
    """Of the draws: 0 where nothing is drawn, None where one draw cannot tell."""
    by: str
    draws: int
    """0 where nothing is drawn."""
    tokens: tuple[int, ...]
    """The text."""
    per_token: tuple[float, ...]
    """What each token adds to it."""
    prompt_tokens: int
    updates: int
    """Different looks that were taken at the text, or updates of the decoder that was followed."""
    columns: int
    """Columns that were computed."""
    seconds: float
    written_at: tuple[int, ...] = ()
    """For each token, the update that revealed it, where they were revealed one after the other."""
    weights_version: int = 0
    """How often the weights had been changed in place before."""

    @property
    def per_token_mean(self) -> float:
        """Nats per token."""
        return self.log_likelihood / len(self.tokens)

    @property
    def perplexity(self) -> float:
        """Per token; of a bound on the likelihood, a bound on the perplexity."""
        return math.exp(min(-self.per_token_mean, LARGEST_EXPONENT))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not finite there is null."""
        plain = asdict(self)
        for name in ("tokens", "written_at"):
            plain[name] = list(plain[name])
        plain["per_token"] = [finite(each) for each in self.per_token]
        plain["log_likelihood"] = finite(self.log_likelihood)
        return plain | {"perplexity": finite(self.perplexity)}
