"""The part of the judge that runs in other processes, as source that uses the standard library alone."""
