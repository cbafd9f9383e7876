"""The tool that loads skills for clients without the extension. Operators add it like any function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from invocations.call.context import CallContext
from mcphub.features.skills import contents
from mcphub.features.skills.contents import ENTRY, SCHEME
from mcphub.features.skills.offered import OF_SKILLS, SkillEntry, skills_of
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.catalog.listing import is_visible
from tools_catalog.catalog.toolsets import Toolset

if TYPE_CHECKING:
    from sessions_app.caller import Caller
    from sessions_app.protocol.json import Json
    from tools_catalog.catalog.offers import Resources

MOST_LISTED = 200
"""Skills in one answer."""
MOST_FILES = 100
"""Named in one answer."""
_LISTED_CHARACTERS = 300
"""Of a description in the list."""


@tool(title="Load a skill", read_only=True, open_world=False)
async def load_skill(
    context: Context,
    skill: Annotated[str, Field(description="Its name or path. Empty: list the skills.", max_length=300)] = "",
    file: Annotated[
        str, Field(description="A file of the skill, such as references/RULES.md.", max_length=300)
    ] = ENTRY,
    search: Annotated[str, Field(description="List only skills with this text.", max_length=200)] = "",
) -> ToolResult:
    """Load the instructions of a skill before you do what it is about. Call it without arguments to list the skills."""
    call = context._parts
    assert isinstance(call, CallContext)
    assert call.record is not None
    resources = call.record.configuration.resources
    if call.request is not None and isinstance(call.request.selection, Toolset):
        resources = call.request.selection.resources_of(resources)
    caller = call.source.caller
    if not skill:
        return ToolResult(content=[text_block(_listed(resources, caller, search.casefold()))])
    found = _named(resources, caller, skill)
    place = found.root.removeprefix(SCHEME)
    uri = contents.uri_of(place, file)
    at = resources.find(uri, caller)
    if at is None or not isinstance(at[0].contents, OF_SKILLS):
        raise ToolError(f"The skill {place} has no file {file!r}. Its files: {_files(found)}.")
    read = await at[0].contents.read(uri, {}, call)
    blocks = [
        text_block(each["text"]) if "text" in each else {"type": "resource", "resource": each}
        for each in read["contents"]
    ]
    if not blocks:
        raise ToolError("The skill changed just now. Call again.")
    if file == ENTRY and len(_manifest(found)) > 1:
        blocks.append(text_block(f"[MCP Hub: load another file of this skill by `file`: {_files(found)}]"))
    return ToolResult(content=blocks)


def _visible(resources: Resources, caller: Caller) -> Iterator[SkillEntry]:
    return (skill for skill in skills_of(resources) if skill.enabled and is_visible(skill, caller))


def _listed(resources: Resources, caller: Caller, text: str) -> str:
    lines = []
    for skill in _visible(resources, caller):
        described = f"{_path(skill)}: {_description(skill)}"
        if text in described.casefold():
            lines.append(described if len(described) <= _LISTED_CHARACTERS else f"{described[:_LISTED_CHARACTERS]}…")
    if not lines:
        return (
            "No skill here has this text. List all without `search`." if text else "There are no skills here for you."
        )
    shown = "\n".join(lines[:MOST_LISTED])
    if len(lines) > MOST_LISTED:
        shown += f"\n[MCP Hub: {MOST_LISTED} of {len(lines)} skills. Find the others by `search`.]"
    return shown


def _named(resources: Resources, caller: Caller, name: str) -> SkillEntry:
    """Return the skill at a path or address, or else the only one with the name."""
    path = name.removeprefix(SCHEME).removesuffix(f"/{ENTRY}").strip("/")
    visible = {_path(skill): skill for skill in _visible(resources, caller)}
    if path in visible:
        return visible[path]
    matching = [each for each in visible if each.rpartition("/")[2] == path]
    if len(matching) == 1:
        return visible[matching[0]]
    if matching:
        raise ToolError(f"Several skills have this name. Load one by its path: {', '.join(matching[:MOST_FILES])}")
    raise ToolError(f"There is no skill {name!r} here. Call load_skill without arguments to list the skills.")


def _path(skill: SkillEntry) -> str:
    return skill.root.removeprefix(SCHEME)


def _description(skill: SkillEntry) -> str:
    frontmatter = cast("dict[str, Json]", skill.definition["frontmatter"])
    return " ".join(str(frontmatter["description"]).split())


def _files(skill: SkillEntry) -> str:
    """Return the paths of its files, within it."""
    paths = [contents.path_of(str(file["uri"]), skill.root) for file in _manifest(skill)]
    more = f" and {len(paths) - MOST_FILES} more" if len(paths) > MOST_FILES else ""
    return ", ".join(paths[:MOST_FILES]) + more


def _manifest(skill: SkillEntry) -> list[dict[str, Json]]:
    """Return its files; none of a skill whose files an upstream makes at each read."""
    resources = skill.definition["resources"]
    return cast("list[dict[str, Json]]", resources) if isinstance(resources, list) else []
