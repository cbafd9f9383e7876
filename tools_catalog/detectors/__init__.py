"""Detectors: search of texts and JSON for secrets, personal data, hidden characters and phrases that address models."""
