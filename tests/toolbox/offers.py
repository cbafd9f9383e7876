"""Resources and prompts whose functions wait, fail, or answer what a test put into a file."""

from __future__ import annotations

import asyncio
from typing import Literal

from tests.toolbox.tools import _folder, _leave
from tools_catalog.backends import offered
from tools_catalog.backends.offered import completion, prompt, resource
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.backends.sources import Message
from tools_catalog.call.content import Resource

_CITIES = {"no": ["Oslo", "Odda"], "jp": ["Tokyo", "Osaka"]}


@resource("box://text/{name}", mime_type="text/plain")
def box_text(name: str) -> str | None:
    """What stands in the file `<name>.text`."""
    file = _folder() / f"{name}.text"
    return file.read_text() if name.isalnum() and file.exists() else None


@resource("box://several")
def box_several() -> list[Resource]:
    """Two texts at once."""
    return [Resource("box://several/a", "a", "text/plain"), Resource("box://several/b", b"b", "image/png")]


@resource("box://slow/{name}", timeout_seconds=0.3)
async def box_slow(name: str) -> str:
    """Never there in time."""
    return await _wait(name)


@resource("box://long/{name}", timeout_seconds=40)
async def box_long(name: str) -> str:
    """There whenever somebody says so, which nobody does."""
    return await _wait(name)


@resource("box://broken")
async def box_broken() -> str:
    """Fail with words that are nobody's business."""
    raise RuntimeError("inner words")


@resource("box://large")
async def box_large() -> str:
    """More than the hub sends."""
    return "x" * 5_000_000


@resource("box://whoami")
async def box_whoami(context: Context) -> dict[str, str]:
    """Who reads."""
    return {"caller": context.caller_label}


@completion
async def box_cities(value: str, country: str = "no") -> list[str]:
    """Cities of the country that was given before."""
    if country == "xx":
        raise ToolError("There is no country xx. Choose no or jp.")
    return [city for city in _CITIES.get(country, []) if city.startswith(value)]


@completion
def box_numbers(value: str) -> list[str]:
    """More numbers than an answer holds."""
    return [f"{value}{number}" for number in range(250)]


@prompt(completions={"city": box_cities, "number": box_numbers})
async def box_weather(
    city: str, country: str = "no", number: str = "", tone: Literal["kind", "curt"] = "kind"
) -> list[Message]:
    """Ask for the weather."""
    if city == "Atlantis":
        raise ToolError("There is no weather in Atlantis. Choose a city above the sea.")
    return [Message(f"Weather in {city}, {country}? Be {tone}."), Message("I look.", "assistant")]


@tool(open_world=False, destructive=False)
def announce(uri: str) -> str:
    """Say that a resource reads differently now."""
    offered.updated(uri)
    return "said"


async def _wait(name: str) -> str:
    _leave(_folder(), name, "began")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        _leave(_folder(), name, "cancelled")
        raise
    return "never"
