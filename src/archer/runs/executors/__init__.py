"""Who completes the problems of a run: this process, several, or a Ray cluster; none writes to its folder."""
