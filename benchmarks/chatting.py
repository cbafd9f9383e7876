"""The client of the chat's figures: asks for streams over raw HTTP and times them. A job as JSON in, figures out.

{port, key, model, content, clients, requests} -> {first_ms: [...], whole_ms: [...], tokens, seconds}
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


async def main(job: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(
        {"model": job["model"], "stream": True, "messages": [{"role": "user", "content": job["content"]}]}
    ).encode()
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{job['port']}\r\nauthorization: Bearer {job['key']}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    first: list[float] = []
    whole: list[float] = []
    tokens = 0

    async def client() -> None:
        nonlocal tokens
        reader, writer = await asyncio.open_connection("127.0.0.1", job["port"], limit=2**20)
        for _ in range(job["requests"]):
            began = time.monotonic()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{head[:100]!r} {await reader.read(500)!r}")
            text = b""
            heard = False
            # Chunks of the transfer coding may hold a part of an event, or several.
            while size := int(await reader.readline(), 16):
                text += await reader.readexactly(size)
                await reader.readline()
                if not heard and b'"content":"x' in text:
                    heard = True
                    first.append((time.monotonic() - began) * 1000)
            await reader.readline()
            whole.append((time.monotonic() - began) * 1000)
            if not text.rstrip().endswith(b"[DONE]"):
                raise RuntimeError(f"The stream ended with {text[-200:]!r}")
            tokens += text.count(b'"content":"x')
        writer.close()

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(job["clients"])))
    return {"first_ms": first, "whole_ms": whole, "tokens": tokens, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    try:
        figures = asyncio.run(main(json.load(sys.stdin)))
    except Exception as error:
        figures = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(figures))
