"""From a request's texts to what the engine takes, so that no stranger's text holds up another's request."""

import contextlib
from collections.abc import Callable

from archer.loading.text.text import Text
from archer.server import limits
from archer.server.encoding import Encoded, PromptEncoder, T
from archer.server.fair_turns import FairTurns, on_a_thread
from archer.server.request_schema import GenerationRequest, texts_of
from archer.structure.confined import made_apart


class Entrance:
    """The encoder, and what takes turns before and beside it; ended like the encoder."""

    def __init__(self, text: Text) -> None:
        self._text, self._encoder = text, PromptEncoder(text)
        self._tokenizing, self._structures = FairTurns(limits.ROWS), FairTurns(limits.STRUCTURES)
        self._long = FairTurns(1)

    async def requests(
        self, generation: GenerationRequest, owner: str, check: Callable[[Encoded], T]
    ) -> T:
        """What the check makes of the ids; what an answer has to be is worked out elsewhere, in turns."""
        structure = generation.structure
        if structure is None:
            return await self._encoded(generation, owner, check)
        async with self._structures.turn(owner):
            automaton = structure.known or await made_apart(structure)
            ids = await self._encoded(generation, owner, lambda ids: ids)

            def checked() -> T:
                structure.learn(automaton)  # it may have been forgotten meanwhile
                return check(ids)

            return await on_a_thread(checked)

    def close(self) -> None:
        self._encoder.close()

    def join(self) -> None:
        self._encoder.join()

    async def _encoded(
        self, generation: GenerationRequest, owner: str, check: Callable[[Encoded], T]
    ) -> T:
        """What the check makes of the ids; texts that can take long are encoded for owners in turns."""
        turns = self._turns(generation)
        async with contextlib.nullcontext() if turns is None else turns.turn(owner):
            return await self._encoder.requests(generation.prompts, check)

    def _turns(self, generation: GenerationRequest) -> FairTurns | None:
        """None where the encoder is done in a moment: what arrives together is then rendered together."""
        texts = (text for prompt in generation.prompts for text in texts_of(prompt))
        if sum(map(len, texts)) > limits.LONG:
            return self._long
        return None if self._text.child is None else self._tokenizing
