"""Pages that explain runs: players of recorded trajectories, tables and figures, in one file each."""
