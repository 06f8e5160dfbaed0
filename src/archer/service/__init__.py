"""Many requests at once on one model: an engine that takes them, makes their turns, and hands out results."""
