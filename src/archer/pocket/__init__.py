"""The embedded benchmark: short Python problems made by a grammar, with tests, splits and a tokenizer."""
