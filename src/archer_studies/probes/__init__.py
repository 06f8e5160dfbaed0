"""Looking into single runs: shadow passes, branches, margins, derivatives, and their intervals."""
