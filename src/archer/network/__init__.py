"""Weights to numbers: knows no column, no request."""
