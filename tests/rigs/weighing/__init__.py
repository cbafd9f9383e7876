"""A pack whose one tool counts what the hub's own process holds, which nobody outside can count."""
