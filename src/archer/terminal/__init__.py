"""Watching a response being denoised in a terminal."""
