"""Memory that passes on a processor free and want back a moment later.

A pass frees temporaries of a few megabytes many times.  glibc returns what is free at the end of its heap to
the system once it is more than twice the largest block freed so far, and the next temporary is then mapped
and cleared anew, page by page.  `tests/machine/test_heap.py` counts the pages.
"""

from functools import cache
from typing import Final

import torch

LARGEST: Final = 31 << 20
"""Bytes, just below the 32 MB up to which glibc learns from what it frees."""


@cache
def keep_freed_memory() -> None:
    """Free one large block, once: up to 62 MB then stay at hand, unless `MALLOC_TRIM_THRESHOLD_` is set."""
    torch.empty(LARGEST, dtype=torch.uint8)
