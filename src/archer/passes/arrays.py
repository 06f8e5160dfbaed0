"""Types of the small arrays by which decoders and policies decide, on the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""Token ids, columns, counts."""
Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]
"""Probabilities and scores; NaN where nothing is known."""
