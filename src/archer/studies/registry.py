"""The studies by name, in the order in which they are reproduced."""

from __future__ import annotations

from archer.errors import BadRequest
from archer.studies import (
    age,
    backbones,
    cache_use,
    cases,
    confirm,
    cross_domain,
    feedback,
    main,
    parallel,
    prompt_length,
    radius,
    refresh,
    response_length,
    rollback,
    tail,
    theory,
    validity,
)
from archer.studies.study import Study

ORDER = (
    main.STUDY,
    backbones.STUDY,
    radius.STUDY,
    rollback.STUDY,
    feedback.STUDY,
    validity.STUDY,
    cross_domain.STUDY,
    cache_use.STUDY,
    prompt_length.STUDY,
    response_length.STUDY,
    age.STUDY,
    theory.STUDY,
    cases.STUDY,
    parallel.STUDY,
)
STUDIES: dict[str, Study] = {each.name: each for each in ORDER}
BEYOND: dict[str, Study] = {each.name: each for each in (refresh.STUDY, tail.STUDY, confirm.STUDY)}
"""Studies that the paper does not have; they are no part of a reproduction."""


def find_study(name: str) -> Study:
    known = STUDIES | BEYOND
    if name not in known:
        raise BadRequest(f"There is no study {name!r}. The studies are {', '.join(known)}.")
    return known[name]
