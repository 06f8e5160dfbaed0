"""Times that can be compared: each problem is decoded by every arm in turn, so a busy minute meets them all.

The arms' own times are of different hours and are not used for ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from archer.completion import Completion
from archer.runs.decoding import encode
from archer.studies.lab import Arm, Lab
from archer.studies.walking import require_unchanged, walk


def in_turn(lab: Lab, arms: Mapping[str, Arm], keys: Sequence[str] | None = None) -> dict[str, Arm]:
    """The arms, which share their problems, with times of some of these, the first ones by default.

    The first problem is decoded once beforehand. Whatever differs from the runs is refused.
    """
    chosen = list(next(iter(arms.values())).keys[: lab.scale.timed] if keys is None else keys)
    decoders = {label: _Decoder(lab, arm, chosen) for label, arm in arms.items()}
    for decoder in decoders.values():
        decoder(chosen[0])
    times: dict[str, dict[str, float]] = {label: {} for label in arms}
    for key in chosen:
        for label, arm in arms.items():
            completion = decoders[label](key)
            require_unchanged(arm, key, completion)
            times[label][key] = completion.seconds.total
    return {label: replace(arm, in_turn=times[label]) for label, arm in arms.items()}


class _Decoder:
    """Decodes some problems of an arm by their keys."""

    def __init__(self, lab: Lab, arm: Arm, keys: Sequence[str]) -> None:
        self._request = lab.again(arm)
        samples = self._request.task.samples()
        self._prompts = encode(self._request, [each for each in samples if str(each.id) in keys])

    def __call__(self, key: str) -> Completion:
        stream = walk(self._request, self._prompts[key])
        for _ in stream:
            pass
        (completion,) = stream.completions
        return completion
