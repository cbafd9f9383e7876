"""Descriptions of APIs, from their bytes to their operations. Pure.

`python -m` this module reads one from standard input, in the process that `apart.py` starts.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import asdict
from typing import Any

from mcphub.features.importers import graphql
from mcphub.features.importers.candidates import Candidate, Found
from mcphub.features.importers.documents import DocumentRefused, read
from mcphub.features.importers.openapi import reading as openapi
from sessions_app.protocol import json

OPENAPI, GRAPHQL = "openapi", "graphql"
MOST_BYTES = 64 * 1024 * 1024
TOOLS_FACTOR = 2
"""The tools may take so many times the bytes that an import may need of the document."""
MEMORY_STATUS = 3
"""Exit status of a process that ran out of memory."""


def look(raw: bytes, kind: str, *, slug: str, prefix: str, source: str = "", most_bytes: int = MOST_BYTES) -> Found:
    """Read a description; raises DocumentRefused. `most_bytes` bounds the part that an import needs, as JSON."""
    document = read(raw)
    del raw
    if kind == OPENAPI:
        document = openapi.needed(document)
    size = len(json.dumps(document))
    if size > most_bytes:
        raise DocumentRefused(
            f"An import needs {size} bytes of the document, more than the {most_bytes} that are read. Leave out "
            "operations, or ask the hub's operator to raise the limit max_import_bytes."
        )
    if kind == OPENAPI:
        return openapi.read(document, slug=slug, prefix=prefix, source=source)
    return graphql.read(document, slug=slug, prefix=prefix)


def encoded(found: Found) -> bytes:
    """Write the findings as JSON."""
    return json.dumps(asdict(found))


def decoded(raw: bytes | str) -> Found:
    """Read the output of `encoded`."""
    given: dict[str, Any] = json.loads_stored(raw if isinstance(raw, str) else raw.decode())
    candidates = [Candidate(**{**each, "tags": tuple(each["tags"])}) for each in given.pop("candidates")]
    refused = [(key, why) for key, why in given.pop("refused")]
    return Found(**given, candidates=candidates, refused=refused)


def main() -> int:
    """Answer one task: a line of JSON with the instructions, then the description."""
    task = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_AS, (task["memory_bytes"], task["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CPU, (task["seconds"], task["seconds"]))
    words = {name: task[name] for name in ("kind", "slug", "prefix", "source", "most_bytes")}
    try:
        answer = encoded(look(sys.stdin.buffer.read(), **words))
        most = TOOLS_FACTOR * task["most_bytes"]
        if len(answer) > most:
            raise DocumentRefused(
                f"The tools of the document take {len(answer)} bytes, more than {most}. Leave out "
                "operations, or ask the hub's operator to raise the limit max_import_bytes."
            )
    except DocumentRefused as error:
        answer = json.dumps({"refused_whole": str(error)})
    except MemoryError:
        return MEMORY_STATUS
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
