"""An upstream on Python's `mcp` 1.x, era of sessions: `sdk_v1.py streamable-http|sse|stdio [PORT]`."""

from __future__ import annotations

import os
import socket
import sys
import uuid

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import Completion, CompletionArgument, ElicitRequestURLParams, SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("peer-v1")
marks: dict[int, str] = {}


@server.tool()
def echo(text: str) -> str:
    """Return the text back."""
    return text


@server.tool()
async def steps(context: Context, times: int) -> str:
    """Report progress and log so many times."""
    for step in range(1, times + 1):
        await context.report_progress(step, times, f"step {step}")
        await context.info(f"log {step}")
    return f"{times} steps"


@server.tool()
async def sleep(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "awake"


@server.tool()
def session_mark(context: Context) -> str:
    """Tell this session from others."""
    return marks.setdefault(id(context.session), uuid.uuid4().hex)


class Sure(BaseModel):
    sure: bool


@server.tool()
async def confirm(context: Context) -> str:
    """Ask the person."""
    answer = await context.elicit("Are you sure?", Sure)
    return f"{answer.action} {answer.data.sure}" if answer.action == "accept" else answer.action


class Login(BaseModel):
    password: str


@server.tool()
async def sign_in(context: Context) -> str:
    """Ask the person for a password."""
    answer = await context.elicit("Sign in.", Login)
    return answer.action


@server.tool()
async def think(context: Context) -> str:
    """Ask the client's model."""
    words = SamplingMessage(role="user", content=TextContent(type="text", text="Think."))
    answer = await context.session.create_message([words], max_tokens=10)
    assert isinstance(answer.content, TextContent)
    return answer.content.text


@server.tool()
async def where(context: Context) -> str:
    """Ask which folders the client works in."""
    listed = await context.session.list_roots()
    return ", ".join(str(root.uri) for root in listed.roots)


charged = 0


@server.tool()
async def charge(context: Context) -> str:
    """Do something that must not be done twice, then ask twice."""
    global charged
    charged += 1
    mine = charged
    first = await context.elicit("Are you sure?", Sure)
    second = await context.elicit("Are you really sure?", Sure)
    return f"{charged - mine} more, {first.action} {second.action}"


arrived: set[str] = set()


@server.tool()
async def connect(name: str) -> str:
    """Send the person to an address first."""
    if name not in arrived:
        address = f"https://example.org/{name}"
        words = ElicitRequestURLParams(message=f"Connect {name}.", url=address, elicitationId=f"id-{name}")
        raise UrlElicitationRequiredError([words])
    return "connected"


@server.tool()
async def arrive(context: Context, name: str) -> str:
    """Let the person be done at the address of `connect`, and say so."""
    arrived.add(name)
    await context.session.send_elicit_complete(f"id-{name}")
    return "done"


@server.tool()
async def lead(context: Context, name: str) -> str:
    """Send the person to an address, and say in the midst of the call that they are done there."""
    answer = await context.elicit_url(f"Visit {name}.", f"https://example.org/{name}", f"id-{name}")
    await context.session.send_elicit_complete(f"id-{name}", related_request_id=context.request_id)
    return answer.action


def note() -> str:
    """A note."""
    return "note 0"


def echoed(word: str) -> str:
    """The word itself."""
    return word


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


async def complete(ref: object, argument: CompletionArgument, context: object) -> Completion:
    names = [name for name in ("ada", "alan", "grace") if name.startswith(argument.value)]
    return Completion(values=names, total=len(names), hasMore=False)


if scheme := os.environ.get("PEER_SCHEME"):
    server.resource(f"{scheme}://note", mime_type="text/plain")(note)
    server.resource(f"{scheme}://echo/{{word}}")(echoed)
    server.prompt()(greet)
    server.completion()(complete)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    from serving import serve  # which a confined child may not read

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    listener.listen(128)
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    serve(app, listener, lifespan="on")


if __name__ == "__main__":
    main()
