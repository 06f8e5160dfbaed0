"""What both mixtures have from Ling, the family that they were made of."""

from archer.loading.architecture import SpecialIds

LING = SpecialIds(vocabulary=157184, mask=156895, eos=156892)
"""Both mixtures share a tokenizer, and neither has the ids in its config.json."""
