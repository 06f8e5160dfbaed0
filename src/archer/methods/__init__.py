"""Decoders and policies by name, their settings, and which of them go together."""
