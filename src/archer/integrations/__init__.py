"""Archer as a part of other tools. Nothing of the package imports these modules."""
