"""The studies by name, in the order in which they are reproduced."""

from __future__ import annotations

from archer.errors import BadRequest, meant
from archer_studies.beyond import confirm, mechanism, models, refresh, tail
from archer_studies.paper import (
    age,
    backbones,
    cache_use,
    cases,
    cross_domain,
    feedback,
    main,
    parallel,
    prompt_length,
    radius,
    response_length,
    rollback,
    theory,
    validity,
)
from archer_studies.study import Study

STUDIES: dict[str, Study] = {
    each.name: each
    for each in (
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
}
"""Those of the paper, and `age` and `parallel`, which answer what it leaves open."""
BEYOND: dict[str, Study] = {
    each.name: each
    for each in (
        refresh.STUDY,
        mechanism.STUDY,
        tail.STUDY,
        confirm.STUDY,
        confirm.SECOND,
        models.STUDY,
    )
}
"""Studies about what goes beyond the paper; they are no part of a reproduction."""


def find_study(name: str) -> Study:
    known = STUDIES | BEYOND
    if name not in known:
        raise BadRequest(
            f"There is no study {name!r}.{meant(name, known)} The studies are {', '.join(known)}."
        )
    return known[name]
