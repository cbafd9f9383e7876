"""Guardrails: detection in arguments and results, and its consequences."""
