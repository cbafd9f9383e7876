"""Servers that somebody has already: out of the configuration of a client, a registry, or the list that ships."""
