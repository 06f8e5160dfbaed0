"""The bytes of every token, and which tokens begin or end with given bytes.

Known for tokenizers that join their tokens and do nothing else: byte-level ones, and those whose tokens are
plain text. Others rewrite text when they join it (a space at the front, runs of byte tokens), so no single
token has bytes of its own there.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import torch
from tokenizers import Tokenizer
from torch import Tensor

MOST_SETS = 4096
"""Sets that are kept of each kind; those that begin or end so hold as many ids as the tokens have bytes."""


@dataclass(frozen=True)
class TokenBytes:
    """`spelled` has the bytes of every token that leaves a trace in a text; `ordinary` those without a
    meaning beyond their text, which alone may stand at a seam.

    Equal seams have one set, whoever asks: nobody writes to it.
    """

    spelled: Mapping[int, bytes]
    ordinary: frozenset[int]

    def join(self, ids: Iterable[int]) -> bytes:
        """The text of tokens; special ones and ids without a token leave no trace."""
        return b"".join(self.spelled.get(id, b"") for id in ids)

    @cached_property
    def beginning_with(self) -> Callable[[bytes], Tensor]:
        """(n,) ids of the ordinary tokens whose bytes begin so, in order."""
        return lru_cache(MOST_SETS)(lambda start: _run(self._forward, start))

    @cached_property
    def ending_with(self) -> Callable[[bytes], Tensor]:
        """(n,) ids of the ordinary tokens whose bytes end so, in order."""
        return lru_cache(MOST_SETS)(lambda end: _run(self._backward, end[::-1]))

    @cached_property
    def around(self) -> Callable[[bytes, bytes], Tensor]:
        """(n,) ids of the ordinary tokens that begin and end so, without the two sharing a byte."""
        return lru_cache(MOST_SETS)(self._around)

    def _around(self, start: bytes, end: bytes) -> Tensor:
        least = len(start) + len(end)
        either = min(self.beginning_with(start), self.ending_with(end), key=len)
        pieces = ((id, self.spelled[id]) for id in either.tolist())
        fits = [
            id
            for id, piece in pieces
            if len(piece) >= least and piece.startswith(start) and piece.endswith(end)
        ]
        return torch.tensor(fits, dtype=torch.int64)

    @cached_property
    def _forward(self) -> tuple[list[bytes], Tensor]:
        return self._sorted(lambda piece: piece)

    @cached_property
    def _backward(self) -> tuple[list[bytes], Tensor]:
        return self._sorted(lambda piece: piece[::-1])

    def _sorted(self, order: Callable[[bytes], bytes]) -> tuple[list[bytes], Tensor]:
        pairs = sorted((order(self.spelled[id]), id) for id in self.ordinary)
        ids = torch.tensor([id for _, id in pairs], dtype=torch.int64)
        return [piece for piece, _ in pairs], ids


def read_token_bytes(tokenizer: Tokenizer, forbidden: Iterable[int]) -> TokenBytes | None:
    """The bytes of all tokens; None for a tokenizer that does more than join them.

    `forbidden` tokens, such as end marks, may not stand at a seam, and nor may added ones.
    """
    letters = _letters(tokenizer)
    if letters is None:
        return None
    added = tokenizer.get_added_tokens_decoder()
    spelled = {id: each.content.encode() for id, each in added.items() if not each.special}
    ordinary = set()
    for token, id in tokenizer.get_vocab(with_added_tokens=False).items():
        if id not in added and token and (not letters or set(token) <= letters.keys()):
            spelled[id] = bytes(letters[c] for c in token) if letters else token.encode()
            ordinary.add(id)
    return TokenBytes(spelled, frozenset(ordinary.difference(forbidden)))


def _letters(tokenizer: Tokenizer) -> Mapping[str, int] | None:
    """How tokens spell bytes: an alphabet; an empty one for plain text; None where joining rewrites."""
    if tokenizer.decoder is None:
        return None
    declared = json.loads(tokenizer.decoder.__getstate__())
    parts = declared["decoders"] if declared["type"] == "Sequence" else [declared]
    match [part["type"] for part in parts]:
        case ["ByteLevel"] | ["ByteLevel", "Fuse"]:
            return byte_alphabet()
        case ["Fuse"]:
            return {}
        case _:
            return None


def _run(ordered: tuple[list[bytes], Tensor], start: bytes) -> Tensor:
    """Those that begin so stand side by side."""
    pieces, ids = ordered
    first = bisect_left(pieces, start)
    last = bisect_right(pieces, start, lo=first, key=lambda piece: piece[: len(start)])
    return ids[first:last].sort().values


@cache
def byte_alphabet() -> dict[str, int]:
    """Byte-level tokenizers write each byte as a letter: printable ones as they are."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + place): byte for place, byte in enumerate(others)}
