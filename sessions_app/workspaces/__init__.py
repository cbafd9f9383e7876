"""Workspaces: teams with tools, keys, rules and calls of their own, which no other team sees."""
