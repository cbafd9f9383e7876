"""A name that no other row has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count


def free_name(wanted: str, is_taken: Callable[[str], bool], most: int, sign: str = "-") -> str:
    """Return the name, numbered where it is taken, and cut where it would be longer than `most` characters."""
    name, numbers = wanted[:most], count(2)
    while is_taken(name):
        end = f"{sign}{next(numbers)}"
        name = wanted[: most - len(end)] + end
    return name
