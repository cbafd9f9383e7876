"""The addresses at which release 1.0 had what Python programs import of the chat."""
