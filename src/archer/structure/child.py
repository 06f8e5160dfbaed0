"""Makes one automaton; a program of its own, started by `confined`: a pattern of a stranger is a program.

Standard input is a structure as JSON.  Standard output is the automaton as arrays, or a refusal as JSON.
"""

import io
import json
import os
import resource
import sys

import numpy as np

from archer.errors import BadRequest
from archer.structure.structures import Structure

CPU_SECONDS = 10
MEMORY = 1 << 30
NICE = 10
"""It is in nobody's way who decodes."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    os.nice(NICE)
    try:
        made = Structure(**json.load(sys.stdin)).automaton()
    except (BadRequest, MemoryError, RecursionError) as error:
        sentence = str(error) if isinstance(error, BadRequest) else ""
        sys.stdout.buffer.write(json.dumps({"refused": sentence}).encode())
        return
    arrays = io.BytesIO()
    np.savez(arrays, next=made.next, accepting=made.accepting, start=np.array(made.start))
    sys.stdout.buffer.write(arrays.getvalue())


if __name__ == "__main__":
    main()
