"""Decoders: pure rules from logits to the next response."""
