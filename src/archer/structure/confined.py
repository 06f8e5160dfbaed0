"""Automata of strangers: made in a process with limits on time and memory, and remembered."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from archer.errors import BadRequest
from archer.structure.byte_automaton import ByteAutomaton
from archer.structure.structures import Structure

COMMAND = (sys.executable, "-P", "-m", "archer.structure.child")
SECONDS = 20.0
"""By the clock; the child has half of it by its own."""


async def made_apart(structure: Structure) -> ByteAutomaton:
    """What a stranger asks for, or a refusal; the process ends with whoever waits for it."""
    question = json.dumps(asdict(structure)).encode()
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await child.communicate(question)
    except TimeoutError:
        raise _too_much(structure) from None
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    if not output.startswith(b"PK"):
        reply = json.loads(output) if output else {}
        raise BadRequest(reply["refused"]) if reply.get("refused") else _too_much(structure)
    with np.load(io.BytesIO(output), allow_pickle=False) as arrays:
        return ByteAutomaton(arrays["next"], arrays["accepting"], int(arrays["start"]))


def _too_much(structure: Structure) -> BadRequest:
    return BadRequest(
        f"The {structure.kind} takes more time or memory to prepare than a request may. Bound its numbers "
        "and lengths more tightly, or leave some of it out."
    )
