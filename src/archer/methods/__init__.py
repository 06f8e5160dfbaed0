"""Decoders and policies by name, their settings, and which of them go together."""

DEFAULT_METHOD, PAPER_METHOD = "archer-doubt", "archer"
"""What decodes where nobody names a method and the model recommends none, see `build.default_method`."""
