"""The studies by name, in the order in which they are reproduced."""

from archer.errors import BadRequest, meant
from archer_studies.beyond import (
    confirm,
    frontier,
    gap_length,
    infill,
    length,
    mechanism,
    models,
    price,
    quantize,
    refresh,
    stream,
    tail,
)
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
from archer_studies.study import Study, study_of

REPEATING = ("prompt-length", "response-length")
"""Studies that time one call again and again."""
STUDIES: dict[str, Study] = {
    name: study_of(name, module, repeats=name in REPEATING)
    for name, module in {
        "main": main,
        "backbones": backbones,
        "radius": radius,
        "rollback": rollback,
        "feedback": feedback,
        "validity": validity,
        "cross-domain": cross_domain,
        "cache-use": cache_use,
        "prompt-length": prompt_length,
        "response-length": response_length,
        "age": age,
        "theory": theory,
        "cases": cases,
        "parallel": parallel,
    }.items()
}
"""Those of the paper, and `age` and `parallel`, which answer what it leaves open."""
BEYOND: dict[str, Study] = {
    "refresh": study_of("refresh", refresh),
    "mechanism": study_of("mechanism", mechanism),
    "tail": study_of("tail", tail),
    "confirm": confirm.STUDY,
    "confirm-doubt": confirm.SECOND,
    "confirm-price": price.STUDY,
    "frontier": study_of("frontier", frontier),
    "models": study_of("models", models),
    "quantize": study_of("quantize", quantize),
    "infill": study_of("infill", infill),
    "gap-length": study_of("gap-length", gap_length),
    "stream": study_of("stream", stream),
    "length": study_of("length", length),
}
"""Studies about what goes beyond the paper; they are no part of a reproduction."""


def find_study(name: str) -> Study:
    known = STUDIES | BEYOND
    if name not in known:
        raise BadRequest(
            f"There is no study {name!r}.{meant(name, known)} The studies are {', '.join(known)}."
        )
    return known[name]
