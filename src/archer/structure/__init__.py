"""Answers that fit: JSON schemas, regular expressions and choices, kept in any order of filling."""
