"""The rules that decide about a call, and their verdicts."""
