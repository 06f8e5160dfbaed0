"""The studies by name, in the order in which they are reproduced."""

from __future__ import annotations

from archer.errors import BadRequest
from archer.studies import feedback, radius, theory, validity
from archer.studies.study import Study

STUDIES: dict[str, Study] = {
    each.name: each
    for each in (
        radius.STUDY,
        feedback.STUDY,
        validity.STUDY,
        theory.STUDY,
    )
}


def find_study(name: str) -> Study:
    if name not in STUDIES:
        raise BadRequest(f"There is no study {name!r}. The studies are {', '.join(STUDIES)}.")
    return STUDIES[name]
