"""Guardrails: what is looked for in arguments and results, and what follows where it is found."""
