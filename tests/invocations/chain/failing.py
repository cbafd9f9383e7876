"""A sealer that fails where a test says."""

from __future__ import annotations


class Failing:
    """A raw connection whose statement number `at` fails, before or after it was done."""

    def __init__(self, raw, at: int, after: bool) -> None:
        self._raw, self._at, self._after = raw, at, after

    def __getattr__(self, name: str):
        return getattr(self._raw, name)

    def execute(self, *arguments):
        self._at -= 1
        if self._at == 0 and not self._after:
            raise ConnectionError("gone")
        done = self._raw.execute(*arguments)
        if self._at == 0:
            raise ConnectionError("gone")
        return done
