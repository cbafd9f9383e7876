"""The limit: an ASGI application that reads the request and answers the same bytes every time.

bare.py --port N --answer FILE
"""

import argparse
from pathlib import Path

import uvicorn

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, required=True)
options.add_argument("--answer", type=Path, required=True, help="an answer of the hub, so that the size is the same")
given = options.parse_args()
BODY = given.answer.read_bytes()
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))],
}
ANSWER = {"type": "http.response.body", "body": BODY}


async def application(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(ANSWER)


uvicorn.run(
    application,
    port=given.port,
    loop="uvloop",
    http="httptools",
    ws="none",
    lifespan="off",
    log_level="warning",
    access_log=False,
    server_header=False,
)
