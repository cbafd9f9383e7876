"""Guardrails: what is looked for in arguments and results, and the consequences."""
