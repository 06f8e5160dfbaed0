"""The studies by name, in the order in which they are reproduced."""

from __future__ import annotations

from archer.errors import BadRequest, meant
from archer_studies import (
    age,
    backbones,
    cache_use,
    cases,
    confirm,
    confirm_doubt,
    cross_domain,
    feedback,
    main,
    mechanism,
    models,
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
from archer_studies.study import Study

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
BEYOND: dict[str, Study] = {
    each.name: each
    for each in (
        refresh.STUDY,
        mechanism.STUDY,
        tail.STUDY,
        confirm.STUDY,
        confirm_doubt.STUDY,
        models.STUDY,
    )
}
"""Studies that the paper does not have; they are no part of a reproduction."""
ABOUT = {
    "main": "Scores and times of every method, each problem decoded by all of them in turn",
    "backbones": "Saber and Archer on models with plain and with shifted logits",
    "radius": "Score and time by the radius of the prompt cache",
    "rollback": "What rollback revises, with and without the cache",
    "feedback": "What a prompt that sees the response at once, later or never is worth",
    "validity": "How often a full pass would have decided otherwise, by distance",
    "cross-domain": "Saber and Archer on each kind of problem",
    "cache-use": "Shares of full, cached and reused passes by radius",
    "prompt-length": "Time of a full and of a cached update by prompt length",
    "response-length": "Time of whole answers by response length",
    "age": "Refreshing by a clock against refreshing by distance, at equal cost",
    "theory": "The paper's bounds on the error of a cached prompt, measured",
    "cases": "Problems that only Saber or only Archer solves, to watch",
    "parallel": "What placing several tokens per update costs, and what rollback gives back",
    "refresh": "Rules for when to refresh the prompt, on problems set aside for choosing",
    "mechanism": "Where cached decisions part from fresh ones, and whether surprise or distance tells it",
    "tail": "What it saves to let settled end marks rest",
    "confirm": "The chosen refresh rules on problems that did not choose them",
    "confirm-doubt": "The same for taking back only what lost confidence, at a lower price",
    "models": "What each of the bundled models solves with LLaDA's own decoding",
}
"""What each of them measures, in a phrase."""


def find_study(name: str) -> Study:
    known = STUDIES | BEYOND
    if name not in known:
        raise BadRequest(
            f"There is no study {name!r}.{meant(name, known)} The studies are {', '.join(known)}."
        )
    return known[name]
