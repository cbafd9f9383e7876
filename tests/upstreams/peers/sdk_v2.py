"""An upstream on Python's `mcp` 2.x, of both eras: `sdk_v2.py http|stdio [PORT]`. Prints `ready PORT` over HTTP."""

import os
import socket
import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Completion,
    CompletionArgument,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("peer-v2", version="2.0")


@server.tool()
def echo(text: str) -> str:
    """Return the text back."""
    return text


@server.tool()
async def steps(context: Context, times: int) -> str:
    """Report progress so many times."""
    for step in range(1, times + 1):
        await context.report_progress(step, times, f"step {step}")
    return f"{times} steps"


@server.tool()
async def sleep(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "awake"


@server.tool()
def fail(words: str) -> str:
    """Fail with these words."""
    raise ToolError(words)


@server.tool()
def who() -> dict[str, str | None]:
    """Tell the process, and what of its environment may be known."""
    return {"pid": str(os.getpid()), "token": os.environ.get("TOKEN"), "home_key": os.environ.get("MCPHUB_DATA_DIR")}


class Sure(BaseModel):
    sure: bool


def ask_sure() -> Elicit[Sure]:
    return Elicit("Are you sure?", Sure)


class Login(BaseModel):
    password: str


def ask_password() -> Elicit[Login]:
    return Elicit("Sign in.", Login)


@server.tool()
def sign_in(answer: Annotated[ElicitationResult[Login], Resolve(ask_password)]) -> str:
    """Ask the person for a password."""
    return answer.action


def ask_model() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Think."))], max_tokens=10)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
def confirm(answer: Annotated[ElicitationResult[Sure], Resolve(ask_sure)]) -> str:
    """Ask the person."""
    return f"accept {answer.data.sure}" if isinstance(answer, AcceptedElicitation) else answer.action


@server.tool()
def think(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    assert isinstance(answer.content, TextContent)
    return answer.content.text


@server.tool()
def where(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask which folders the client works in."""
    return ", ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def lead(context: Context, name: str) -> str | InputRequiredResult:
    """Send the person to an address."""
    if (given := (context.input_responses or {}).get("where")) is not None:
        return given.action
    words = ElicitRequestURLParams(message=f"Visit {name}.", url=f"https://example.org/{name}")
    return InputRequiredResult(input_requests={"where": ElicitRequest(params=words)})


@server.tool()
async def sampled(context: Context) -> str:
    """Refuse clients without a model."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs a model.", needed)
    return "there is a model"


touched = 0


def note() -> str:
    """A note that `touch` changes."""
    return f"note {touched}"


def echoed(word: str) -> str:
    """The word itself."""
    return word


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


async def complete(ref: object, argument: CompletionArgument, context: object) -> Completion:
    names = [name for name in ("ada", "alan", "grace") if name.startswith(argument.value)]
    return Completion(values=names, total=len(names), has_more=False)


async def touch(context: Context) -> str:
    """Change the note, and say so to who listens."""
    global touched
    touched += 1
    await context.notify_resource_updated(f"{os.environ['PEER_SCHEME']}://note")
    return "touched"


if scheme := os.environ.get("PEER_SCHEME"):
    # URIs are one name space in the hub: who wants resources names a scheme of its own.
    server.resource(f"{scheme}://note", mime_type="text/plain")(note)
    server.resource(f"{scheme}://echo/{{word}}")(echoed)
    server.prompt()(greet)
    server.completion()(complete)
    server.tool()(touch)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    from serving import serve  # which a confined child may not read

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    listener.listen(128)
    serve(server.streamable_http_app(), listener, lifespan="on")


if __name__ == "__main__":
    main()
