"""How probable a model finds a text, with nothing written."""
