"""Verdicts of call rules on recorded calls."""
