"""Evaluates conditions in a process of its own, which may be killed: `python -m` this module.

Reads `[{text, context, time}]` from its input, and writes for each true, false or why it could not be decided.
"""

from __future__ import annotations

import os
import resource
import sys
from datetime import UTC, datetime

from mcphub.features.call_rules import expressions
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_MOST_BYTES = 1 << 30


def answer(task: bytes) -> bytes:
    return json.dumps([_one(asked) for asked in json.loads_stored(task.decode())])


def _one(asked: dict[str, Json]) -> bool | str:
    context = {**asked["context"], "time": datetime.fromtimestamp(asked["time"], UTC)}
    try:
        return expressions.compile(asked["text"]).evaluate(context)
    except (expressions.RuleFailed, expressions.ExpressionRejected) as failed:
        return str(failed)


if __name__ == "__main__":
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))
