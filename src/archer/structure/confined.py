"""Automata of what strangers ask for: made in a process with limits on time and memory: they are programs.

The library that reads expressions cannot be interrupted, and some short ones have no end.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from archer.errors import ArcherError, BadRequest, quoted
from archer.structure.byte_automaton import ByteAutomaton
from archer.structure.structures import Structure

COMMAND = (sys.executable, "-P", "-m", "archer.structure.child")
SECONDS = 20.0
"""By the clock; the child has half of it by its own."""
MOST_HERE = 2000
"""Characters of a list of choices that is made by whoever asks: a process would take longer to start."""
LIMITS = importlib.util.find_spec("resource") is not None
"""Whether this system has limits for processes."""


async def made_apart(structure: Structure) -> ByteAutomaton:
    """What a stranger asks for, or a refusal; the process ends with whoever waits for it."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await child.communicate(_question(structure))
    except TimeoutError:
        raise _too_much(structure) from None
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    return _read(structure, output)


def make_apart(structure: Structure) -> None:
    """The same for a caller that waits, remembered; nothing where it is known, or a short list of choices.

    Where a process cannot be given limits, it is left to whoever asks for the automaton.
    """
    short = structure.kind == "choices" and len(structure.source) <= MOST_HERE
    if structure.known is not None or short or not LIMITS:
        return
    try:
        done = subprocess.run(
            COMMAND,
            input=_question(structure),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_much(structure) from None
    structure.learn(_read(structure, done.stdout))


def _question(structure: Structure) -> bytes:
    return json.dumps(asdict(structure)).encode()


def _read(structure: Structure, output: bytes) -> ByteAutomaton:
    if not output.startswith(b"PK"):
        reply = json.loads(output) if output else {}
        if "failed" in reply:
            raise ArcherError(
                f"The {structure.kind} could not be prepared: {quoted(reply['failed'])}. Please report this."
            )
        raise BadRequest(reply["refused"]) if "refused" in reply else _too_much(structure)
    with np.load(io.BytesIO(output), allow_pickle=False) as arrays:
        return ByteAutomaton(arrays["next"], arrays["accepting"], int(arrays["start"]))


def _too_much(structure: Structure) -> BadRequest:
    return BadRequest(
        f"The {structure.kind} takes more time or memory to prepare than a request may. Bound its numbers "
        "and lengths more tightly, or leave some of it out."
    )
