"""The rows of the table of model families, a file each."""
