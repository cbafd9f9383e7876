"""Checks one value against one schema in a process of its own, which may be killed: `python -m` this module.

Reads `{schema, value}` from its input, and writes null for a value that fits, else `{sentence, violations}`.
"""

from __future__ import annotations

import os
import sys

from sessions_app.protocol import json, schemas


def answer(task: bytes) -> bytes:
    asked = json.loads_stored(task.decode())
    validator = schemas.compile(asked["schema"])
    if validator.is_valid(asked["value"]):
        return b"null"
    explanation = validator.explain(asked["value"])
    return json.dumps({"sentence": explanation.sentence, "violations": explanation.violations})


if __name__ == "__main__":
    os.nice(5)
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))
