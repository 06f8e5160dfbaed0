"""What it will take: the engine's own scheduler against a simulated clock, before anything is bought."""
