"""Times that can be compared: each problem is decoded by every arm in turn, so a busy minute meets them all.

The arms' own times are of different hours and are not used for ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from archer.engine.stream import Stream
from archer.results.completion import Completion
from archer.runs.decoding import encode
from archer.runs.workspace import Arm, Workspace
from archer_studies.shadow_passes import require_unchanged, walk

WARM_UP = 8
"""Updates: enough for passes of both kinds."""


def in_turn(
    workspace: Workspace, arms: Mapping[str, Arm], keys: Sequence[str] | None = None
) -> dict[str, Arm]:
    """The arms, which share their problems, with times of some of these, the first ones by default.

    Every arm makes a few updates beforehand. Whatever differs from the runs is refused.
    """
    chosen = list(next(iter(arms.values())).keys[: workspace.scale.timed] if keys is None else keys)
    decoders = {label: _Decoder(workspace, arm, chosen) for label, arm in arms.items()}
    for decoder in decoders.values():
        decoder.warm_up(chosen[0])
    times: dict[str, dict[str, float]] = {label: {} for label in arms}
    for key in chosen:
        for label, arm in arms.items():
            completion = decoders[label].decoded(key)
            require_unchanged(arm, key, completion)
            times[label][key] = completion.seconds.total
    return {label: replace(arm, in_turn=times[label]) for label, arm in arms.items()}


class _Decoder:
    """Decodes some problems of an arm by their keys."""

    def __init__(self, workspace: Workspace, arm: Arm, keys: Sequence[str]) -> None:
        self._request = workspace.again(arm)
        samples = self._request.task.samples()
        self._prompts = encode(self._request, [each for each in samples if str(each.id) in keys])

    def warm_up(self, key: str) -> None:
        for _ in islice(self._steps(key), WARM_UP):
            pass

    def decoded(self, key: str) -> Completion:
        (completion,) = self._steps(key).finish()
        return completion

    def _steps(self, key: str) -> Stream:
        return walk(self._request, self._prompts[key])
