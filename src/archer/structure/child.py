"""Makes one automaton; a program of its own, started by `confined`: a pattern of a stranger is a program.

Standard input is a structure as JSON.  Standard output is the automaton as arrays, or JSON that says why not.
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
        output = _made(Structure(**json.load(sys.stdin)))
    except (MemoryError, RecursionError):
        output = b"{}"
    except BadRequest as error:
        output = json.dumps({"refused": str(error)}).encode()
    except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
        output = json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode()
    sys.stdout.buffer.write(output)


def _made(structure: Structure) -> bytes:
    made, arrays = structure.automaton(), io.BytesIO()
    np.savez_compressed(
        arrays, next=made.next, accepting=made.accepting, start=np.array(made.start)
    )
    return arrays.getvalue()


if __name__ == "__main__":
    main()
