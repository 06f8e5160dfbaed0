"""The recipe of the embedded model: objective, data, loop, checkpoints and export."""
