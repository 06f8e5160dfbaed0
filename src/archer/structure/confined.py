"""Automata of strangers: made in a process with limits on time and memory, and remembered."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np

from archer.errors import BadRequest
from archer.structure.byte_automaton import ByteAutomaton
from archer.structure.structures import Structure, automata

COMMAND = (sys.executable, "-P", "-m", "archer.structure.child")
SECONDS = 20.0
"""By the clock; the child has half of it by its own."""


def learn(structure: Structure) -> None:
    """Make what a stranger asks for known, so that nobody has to work it out here; or refuse it."""
    automata.get(structure, _made_apart)


def _made_apart(structure: Structure) -> ByteAutomaton:
    question = json.dumps(asdict(structure)).encode()
    try:
        ran = subprocess.run(
            COMMAND, input=question, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _too_much(structure) from None
    if not ran.stdout.startswith(b"PK"):
        reply = json.loads(ran.stdout) if ran.stdout else {}
        raise BadRequest(reply["refused"]) if reply.get("refused") else _too_much(structure)
    with np.load(io.BytesIO(ran.stdout), allow_pickle=False) as arrays:
        return ByteAutomaton(arrays["next"], arrays["accepting"], int(arrays["start"]))


def _too_much(structure: Structure) -> BadRequest:
    return BadRequest(
        f"The {structure.kind} takes more time or memory to prepare than a request may. Bound its numbers "
        "and lengths more tightly, or leave some of it out."
    )
