"""Vectors, and which of many are closest to one. Pure, and without a library for arrays.

Of thousands of vectors those with the most equal signs are found first, by one XOR each; only the best of them are
multiplied. Lengths are one, so a product is the cosine.
"""

from __future__ import annotations

import heapq
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final

MOST_CLOSE = 25
_MULTIPLIED = 100
_FLOAT: Final = "f"
_FLOAT_BYTES = 4


class VectorInvalid(ValueError):
    """No vector; the argument is why."""


@dataclass(frozen=True, slots=True)
class Vector:
    values: array[float]
    signs: int
    """One bit for each value: whether it is above zero."""

    @property
    def dimensions(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, values: Sequence[float]) -> Vector:
        """Return the vector in the length of one; raise VectorInvalid for numbers that have none."""
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            raise VectorInvalid("it has values that are no numbers")
        length = math.sqrt(sum(map(mul, values, values)))
        if not length or not math.isfinite(length):
            raise VectorInvalid("it has no direction")
        made: array[float] = array(_FLOAT, [value / length for value in values])
        return cls._made(made)

    @classmethod
    def read(cls, stored: bytes) -> Vector:
        """Return what `stored` wrote."""
        if not stored or len(stored) % _FLOAT_BYTES:
            raise VectorInvalid(f"{len(stored)} bytes are no vector")
        values = array(_FLOAT)
        values.frombytes(stored)
        if sys.byteorder == "big":
            values.byteswap()
        return cls._made(values)

    def stored(self) -> bytes:
        values = array(_FLOAT, self.values)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tobytes()

    @classmethod
    def _made(cls, values: array[float]) -> Vector:
        return cls(values, int("".join("1" if value > 0 else "0" for value in values), 2))


def closest(to: Vector, vectors: Mapping[str, Vector], most: int = MOST_CLOSE) -> list[str]:
    """Return the names of the closest vectors, the closest first. Vectors of other dimensions are passed over."""
    signs, size = to.signs, to.dimensions
    alike = ((name, each) for name, each in vectors.items() if each.dimensions == size)
    near = heapq.nsmallest(_MULTIPLIED, alike, key=lambda one: ((one[1].signs ^ signs).bit_count(), one[0]))
    cosines = {name: sum(map(mul, to.values, each.values)) for name, each in near}
    return sorted(cosines, key=lambda name: (-cosines[name], name))[:most]
