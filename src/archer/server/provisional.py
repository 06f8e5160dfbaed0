"""Provisional events: every update of a request as a JSON object, for clients that watch it form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archer.results.trace import Speller, plain_updates, start

if TYPE_CHECKING:
    from archer.request.request import Request
    from archer.results.completion import Completion
    from archer.server.outbox import Skipped, Stepped

STABLE = 8
"""Updates without a change after which a position counts as stable.  It may change all the same."""
_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class ProvisionalEvents:
    """The events of one HTTP request, as JSON objects."""

    def __init__(self, name: str, request: Request) -> None:
        """`request` holds all rows; `name` is what the model is called here, which is no path."""
        self._start = start(request).model_copy(update={"model": name})
        self._speller = Speller(request)
        responses = [self._start.response(row) for row in range(len(request.prompts))]
        self._changed = [[0] * len(response) for response in responses]
        self._open = [[token == self._start.mask for token in response] for response in responses]

    def start(self) -> str:
        return self._start.model_dump_json()

    def updates(self, item: Stepped) -> list[tuple[int, str]]:
        """Each event with its row."""
        events = []
        for event in plain_updates(item.record, item.first):
            row, update = event["row"], event["update"]
            changed, masked = self._changed[row], self._open[row]
            tokens = []
            for change in (*event["accepted"], *event["replaced"]):
                changed[change["at"]] = update
                masked[change["at"]] = False
                tokens.append(change["token"])
            for at in event["remasked"]:
                changed[at] = update
                masked[at] = True
            event["pieces"] = self._speller.pieces(tokens)
            event["stable"] = self._stable(row, update)
            events.append((row, _WRITER.encode(event)))
        return events

    def skipped(self, item: Skipped) -> str:
        """The updates that were merged; from here on nothing is known to be stable."""
        row = item.row
        self._changed[row] = [item.update] * len(item.response)
        self._open[row] = [token == self._start.mask for token in item.response]
        event = {"event": "skipped", "row": row, "count": item.count, "update": item.update}
        return json.dumps(event | {"response": item.response}, separators=(",", ":"))

    def end(self, row: int, completion: Completion) -> str:
        event = {"event": "end", "row": row, "completion": completion.to_dict(provenance=False)}
        return json.dumps(event, separators=(",", ":"), allow_nan=False)

    def _stable(self, row: int, update: int) -> int:
        places = zip(self._open[row], self._changed[row], strict=True)
        unstable = (
            at for at, (masked, since) in enumerate(places) if masked or update - since < STABLE
        )
        return next(unstable, len(self._open[row]))
