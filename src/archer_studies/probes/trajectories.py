"""Problems decoded once more and watched, which must change nothing; and what a trajectory tells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from archer.engine.generate import Stream
from archer.errors import ArcherError
from archer.model import Model
from archer.pages.trajectory import Trajectory, rows
from archer.passes.work import Work, operations
from archer.results import trace
from archer.results.completion import Completion
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import Arm, Workspace
from archer_studies.probes.shadow_passes import require_unchanged
from archer_studies.study import Row

COUNTS = ("updates", "full_passes", "cached_passes")
Methods = Mapping[str, Mapping[str, Any]]
"""Settings by method; the first is the reference."""


@dataclass(frozen=True)
class DecodedProblem:
    """One problem decoded with a witness."""

    trajectory: Trajectory
    completion: Completion
    operations: int
    """Multiplications and additions of all its passes, as they were made."""

    @property
    def states(self) -> list[list[int]]:
        """The response before the first update and after each one."""
        start = self.trajectory.start
        masks = [start.mask] * start.length
        return [masks, *trace.states(start, self.trajectory.updates)]


def decoded(
    model: Model, prompt: Sequence[int], method: str, settings: Mapping[str, Any]
) -> DecodedProblem:
    """Decode one prompt and keep every event."""
    request = model.request([list(prompt)], method, settings=settings)
    stream, work = Stream(model, request), Work()
    for step in stream:
        work += step.work
    (completion,) = stream.finish()
    if completion.error is not None:
        raise ArcherError(f"{method} cannot be watched to its end: {completion.error}")
    (trajectory,) = rows(completion.trace().events)
    return DecodedProblem(trajectory, completion, operations(work, model.folder.shape))


def decoded_again(
    workspace: Workspace, arm: Arm, keys: Sequence[str] | None = None
) -> Iterator[tuple[str, DecodedProblem]]:
    """Problems of an arm, all by default, decoded once more; refuses anything that differs from the run."""
    request = workspace.again(arm)
    choice, prompts = request.choice, workspace.prompts(request)
    for key in arm.keys if keys is None else keys:
        problem = decoded(workspace.model, prompts[key], choice.method, choice.settings)
        require_unchanged(arm, key, problem.completion)
        yield key, problem


def revised_between(states: Sequence[Sequence[int]], mask: int) -> set[int]:
    """Positions that lose or change a token from one state to the next."""
    return {
        at
        for before, after in pairwise(states)
        for at, (old, new) in enumerate(zip(before, after, strict=True))
        if old not in (mask, new)
    }


def revised_ever(updates: Sequence[trace.Update]) -> set[int]:
    """The same, with tokens that are placed and taken back inside one update."""
    taken = {at for event in updates for at in event.remasked}
    return taken | {change.at for event in updates for change in event.replaced}


def taken_back(start: trace.Start, updates: Sequence[trace.Update]) -> list[tuple[int, int]]:
    """Position and token of every re-mask, in order."""
    response = [start.mask] * start.length
    return [taken for event in updates for taken in event.apply(response, start.mask)]


def timed_in_turn(
    model: Model, prompts: Sequence[Sequence[int]], methods: Methods
) -> dict[str, list[DecodedProblem]]:
    """Every prompt by every method in turn, after one round that is thrown away."""
    for method, settings in methods.items():
        decoded(model, prompts[0], method, settings)
    decodings: dict[str, list[DecodedProblem]] = {method: [] for method in methods}
    for prompt in prompts:
        for method, settings in methods.items():
            decodings[method].append(decoded(model, prompt, method, settings))
    return decodings


def saber_and_archer(
    model: Model, prompts: Sequence[Sequence[int]], length: int, radius: int
) -> list[Row]:
    """Both on the same prompts in turn, their costs beside Saber's."""
    methods = {"saber": {"length": length}, "archer": {"length": length, "radius": radius}}
    decodings = timed_in_turn(model, prompts, methods)
    return [
        {"method": each, "arm": each.title(), **compared_costs(decodings[each], decodings["saber"])}
        for each in methods
    ]


def compared_costs(decodings: Sequence[DecodedProblem], reference: Sequence[DecodedProblem]) -> Row:
    """Costs per prompt, and how much faster than the reference on the same prompts."""
    seconds = [each.completion.seconds.total for each in decodings]
    pairs = [
        (other.completion.seconds.total, own) for other, own in zip(reference, seconds, strict=True)
    ]
    row: Row = {"n": len(decodings)}
    for name in COUNTS:
        row[name] = mean([getattr(each.completion, name) for each in decodings])
    return row | {
        "seconds": mean(seconds),
        "seconds_interval": list(bootstrap(seconds, mean)),
        "speedup": ratio_of_sums(pairs),
        "speedup_interval": list(bootstrap(pairs, ratio_of_sums)),
        "speedup_predicted": sum(each.operations for each in reference)
        / sum(each.operations for each in decodings),
    }
