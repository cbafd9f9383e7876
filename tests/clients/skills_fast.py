"""Reads every skill with `fastmcp` 4.2, which verifies them: `skills_fast.py URL MODE`. Prints digests by URI, path."""

import asyncio
import hashlib
import json
import os
import sys

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension


async def main(url: str, mode: str) -> None:
    client = Client(url, auth=os.environ.get("MCPHUB_KEY") or None, mode=mode, extensions=[SkillsClientExtension()])
    found = {}
    async with client:
        for entry in await client.list_skills():
            try:
                skill = await client.read_skill(entry.uri)
            except ValueError as error:
                found[entry.uri] = str(error)
            else:
                found[entry.uri] = {path: hashlib.sha256(raw).hexdigest() for path, raw in sorted(skill.files.items())}
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
