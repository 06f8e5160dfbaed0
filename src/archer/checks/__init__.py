"""Is this installation right: doctor, self-test, replay of recorded trajectories."""
