"""Skills as requests see them: each file is a resource, that of SKILL.md has the skill's entry.

The resources are the catalogue's, so groups, workspaces, toolsets, records and guardrails are those of resources.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from channels.db import database_sync_to_async
from django.db.models import F

from mcphub.features.skills import contents
from mcphub.features.skills.contents import ENTRY, SkillRefused, uri_of
from mcphub.features.skills.entries import DYNAMIC
from mcphub.features.skills.models import Skill, SkillContent, SkillFile, manifest_digest
from sessions_app.protocol import directions, uritemplate
from sessions_app.protocol.errors import ConnectionFailed, ToolDisabled
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace, owner_of
from sessions_app.workspaces.models import read_workspaces
from tools_catalog.backends.upstream_content import Source, UpstreamContents
from tools_catalog.call.context import ToolContext
from tools_catalog.catalog.offers import OfferedResource, Prompt, Resources
from tools_catalog.models import McpUpstreamTool
from tools_catalog.models.shown import read_sights
from tools_catalog.upstream import pool
from tools_catalog.upstream.sights import Sight, Sights

ORIGIN = "mcphub/origin"
"""In the `_meta` of an entry: the connection that the skill comes from, and its URI there."""
_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEntry:
    """One skill as `skills/list` and `skills/get` return it."""

    uri: str
    definition: dict[str, Json]
    enabled: bool
    groups: frozenset[int]
    workspace: Workspace | None
    connection: str | None = None
    sight: Sight | None = None

    @property
    def root(self) -> str:
        """The URI of its directory."""
        return self.uri.removesuffix(f"/{ENTRY}")


@dataclass(frozen=True, slots=True)
class SkillFileContents:
    """Reads one file of a skill."""

    digest: str
    media_type: str
    skill: SkillEntry | None = None
    """The skill whose SKILL.md it is, if that is served as a skill."""
    connection: str | None = None
    """The upstream of which it is a copy."""
    is_static = True

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        if self.connection is not None:
            _look_for_changes(self.connection)
        raw = await database_sync_to_async(self._raw)()
        if raw is None:  # the skill changed since the request began
            return {"contents": []}
        text = contents.text_of(raw)
        content = {"blob": base64.b64encode(raw).decode()} if text is None else {"text": text}
        return {"contents": [{"uri": uri, "mimeType": self.media_type, **content}]}

    def _raw(self) -> bytes | None:
        return _raw(self.digest)


@dataclass(frozen=True, slots=True)
class GeneratedContents:
    """Reads files that an upstream makes, each time over there. The frontmatter of SKILL.md is as it was approved."""

    there: UpstreamContents
    root: str
    """The URI of its directory here."""
    root_there: str
    frontmatter: dict[str, Any]
    skill: SkillEntry | None = None
    is_static = False

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        path = contents.path_of(uri, self.root)
        try:
            contents.check_path(path)
        except SkillRefused:
            return {"contents": []}
        asked = f"{self.root_there}/{uri.removeprefix(f'{self.root}/')}"
        result = await self.there.read(asked, {}, context)
        parts = [{**part, "uri": uri} if part["uri"] == asked else part for part in result["contents"]]
        if path == ENTRY and not all(self._is_approved(part.get("text")) for part in parts):
            raise ToolDisabled(
                "The upstream changed the frontmatter of the skill since it was approved. Tell the hub's operator."
            )
        return {**result, "contents": parts}

    def _is_approved(self, text: Json) -> bool:
        try:
            return isinstance(text, str) and contents.reading_of(text.encode(), self.frontmatter) is not None
        except SkillRefused:
            return False


@dataclass(frozen=True, slots=True)
class SkillMessages:
    """Reads a skill as a prompt: its SKILL.md, and the addresses of its other files."""

    digest: str
    others: tuple[str, ...]
    is_static = True

    async def get(self, arguments: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        raw = await database_sync_to_async(_raw)(self.digest)
        texts = [] if raw is None else [raw.decode()]
        if texts and self.others:
            texts.append("Read its other files as resources where they are needed:\n" + "\n".join(self.others))
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]}


OF_SKILLS = (SkillFileContents, GeneratedContents)


class _File(NamedTuple):
    path: str
    digest: str
    size: int
    media_type: str


def read() -> Iterator[OfferedResource]:
    """Read the files of all skills in the versions in force."""
    for row, files, toolsets, shared in _rows():
        if row.is_generated:
            yield from _generated(row, toolsets, shared)
        else:
            yield from _resources(row, files, toolsets, shared)


def read_prompts() -> Iterator[Prompt]:
    """Read the skills that are prompts too."""
    for row, files, toolsets, shared in _rows(as_prompt=True, is_generated=False):
        yield Prompt(
            name=row.name,
            digest=row.digest,
            timeout_seconds=_SECONDS,
            definition=directions.plain_words({"name": row.name, "description": row.description}),
            messages=SkillMessages(
                next(file.digest for file in files if file.path == ENTRY),
                tuple(uri_of(row.path, file.path) for file in files if file.path != ENTRY),
            ),
            completions={},
            toolsets=toolsets,
            **shared,
        )


def _look_for_changes(connection: str) -> None:
    """Connect the upstream in the background, unless it is connected: its skills are read anew then."""
    with contextlib.suppress(ConnectionFailed):  # no hub runs here
        if (found := pool.here().find(connection)) is not None:
            found.want()


def _raw(digest: str) -> bytes | None:
    raw = SkillContent.objects.filter(pk=digest).values_list("raw", flat=True).first()
    return None if raw is None else bytes(raw)


def _rows(**wanted: bool) -> Iterator[tuple[Skill, list[_File], frozenset[str], dict[str, Any]]]:
    """Return the skills with the files of the version in force, their toolsets, and what all offers have.

    `wanted`: values that they have; neither rows nor files of others are read.
    """
    workspaces, sights = cache(read_workspaces), cache(read_sights)
    files: dict[int, list[_File]] = {}
    in_force = SkillFile.objects.filter(
        version__number=F("version__skill__version"),
        **{f"version__skill__{name}": value for name, value in wanted.items()},
    ).order_by("version_id", "path")
    columns = ("version__skill_id", "path", "content_id", "size", "media_type")
    for skill, path, digest, size, media_type in in_force.values_list(*columns):
        files.setdefault(skill, []).append(_File(path, digest, size, media_type))
    rows = Skill.objects.filter(**wanted).select_related("offer__connection").prefetch_related("groups", "toolsets")
    for row in rows.order_by("path"):
        shared = {
            "enabled": row.is_served,
            "connection": row.upstream,
            "groups": frozenset(group.pk for group in row.groups.all()),
            "workspace": owner_of(row.workspace_id, workspaces),
            "sight": _sight(row.offer, sights),
        }
        toolsets = frozenset(toolset.slug for toolset in row.toolsets.all())
        yield row, files.get(row.pk, []), toolsets, shared


def _sight(offer: McpUpstreamTool | None, sights: Callable[[], Mapping[int, Sights]]) -> Sight | None:
    """Return the visibility by the lists of people, which must have the approved files; None if all see it."""
    if offer is None or not offer.connection.lists_differ:
        return None
    # Whoever is shown the change that waits sees the approved copy meanwhile.
    approval = pool.Approval(offer.approved_digest, offer.seen_digest, keeps_serving=True)
    return Sight(sights().get(offer.connection.pk, {}), offer.kind, offer.upstream_name, approval, is_copy=True)


def skills_of(resources: Resources) -> Iterator[SkillEntry]:
    """Return the skills among resources, for any caller: also disabled ones."""
    for resource in resources.entries():
        if isinstance(resource.contents, OF_SKILLS) and resource.contents.skill is not None:
            yield resource.contents.skill


def _resources(
    row: Skill, files: list[_File], toolsets: frozenset[str], shared: dict[str, Any]
) -> Iterator[OfferedResource]:
    frontmatters = {ENTRY: row.frontmatter}
    for folder in row.nested:
        frontmatters[f"{folder}/{ENTRY}"] = _frontmatter(files, f"{folder}/{ENTRY}")
    for file in files:
        frontmatter = frontmatters.get(file.path)
        skill = None if frontmatter is None else _entry(row, file.path, frontmatter, files, shared)
        uri = uri_of(row.path, file.path)
        definition: dict[str, Any] = {"uri": uri, "name": file.path.rpartition("/")[2]}
        if frontmatter is not None:
            definition |= {"name": frontmatter["name"], "description": frontmatter["description"]}
        yield OfferedResource(
            uri=uri,
            template=None,
            digest=file.digest if skill is None else manifest_digest((each.path, each.digest) for each in files),
            timeout_seconds=_SECONDS,
            definition=directions.plain_words({**definition, "mimeType": file.media_type, "size": file.size}),
            contents=SkillFileContents(file.digest, file.media_type, skill, row.upstream),
            completions={},
            is_listed=skill is not None,
            part_of=uri_of(row.path),
            toolsets=toolsets,
            **shared,
        )


def _generated(row: Skill, toolsets: frozenset[str], shared: dict[str, Any]) -> Iterator[OfferedResource]:
    """Return the SKILL.md of a skill whose files an upstream makes, and a template of the others."""
    assert row.offer is not None
    offer, connection = row.offer, row.offer.connection
    trusts = connection.policy == connection.Policy.TRUST
    approval = pool.Approval(offer.approved_digest, offer.approved_schema_digest, trusts=trusts)
    source = Source(connection.slug, pool.Offer(offer.kind, offer.upstream_name, approval), pool.here)
    entry: dict[str, Json] = {"uri": row.uri, "frontmatter": row.frontmatter, "resources": DYNAMIC}
    skill = SkillEntry(uri=row.uri, definition={**entry, "_meta": {ORIGIN: row.origin}}, **shared)
    template = uritemplate.parse(f"{skill.root}/{{+file}}")
    for found, uri, named in ((skill, row.uri, None), (None, f"{skill.root}/{{+file}}", template)):
        root_there = offer.upstream_name.removesuffix(f"/{ENTRY}")
        member = "uri" if named is None else "uriTemplate"
        yield OfferedResource(
            uri=uri,
            template=named,
            digest=offer.approved_digest,
            timeout_seconds=_SECONDS,
            definition=directions.plain_words({member: uri, "name": row.name, "description": row.description}),
            contents=GeneratedContents(UpstreamContents(source), skill.root, root_there, row.frontmatter, found),
            completions={},
            part_of=row.uri,
            toolsets=toolsets,
            **shared,
        )


def _entry(
    row: Skill, path: str, frontmatter: dict[str, Any], files: Iterable[_File], shared: dict[str, Any]
) -> SkillEntry:
    within = path.removesuffix(ENTRY)
    manifest: list[Json] = [
        {"uri": uri_of(row.path, file.path), "digest": file.digest, "size": file.size}
        for file in files
        if file.path.startswith(within)
    ]
    uri = uri_of(row.path, path)
    definition: dict[str, Json] = {"uri": uri, "frontmatter": frontmatter, "resources": manifest}
    if row.offer is not None:
        definition["_meta"] = {ORIGIN: row.origin}
    return SkillEntry(uri=uri, definition=definition, **shared)


def _frontmatter(files: Iterable[_File], path: str) -> dict[str, Any] | None:
    """Return the frontmatter of a nested skill; None where the version in force has it no more."""
    digest = next((file.digest for file in files if file.path == path), None)
    raw = SkillContent.objects.filter(pk=digest).values_list("raw", flat=True).first()
    return None if raw is None else contents.frontmatter_of(bytes(raw))
