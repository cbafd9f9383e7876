"""Reads the skills of an upstream: entries, and the files of those that changed, which people decide about.

Files are read before a decision, for an operator reads them, and detectors look at them. After it the hub serves its
copy, so this is the only reading of a file over there.

The database is asked by plain `sync_to_async`: a page that tests a connection shares its thread and its transaction,
which `database_sync_to_async` would close.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from asgiref.sync import sync_to_async
from django.db import transaction
from django.utils.translation import gettext as _t

from mcphub.features.skills import entries
from mcphub.features.skills.contents import ENTRY, SkillContents, SkillRefused
from mcphub.features.skills.entries import RelayedEntry
from mcphub.features.skills.findings import kinds_in
from mcphub.features.skills.models import SkillVersion, check_reads, manifest_digest
from sessions_app.protocol import json
from sessions_app.protocol.errors import ResultInvalid, UpstreamError
from sessions_app.protocol.json import Json
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.upstream.further import OffersSession
from tools_catalog.upstream.listing import Listed
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec

KIND: Final = "skill"
EXTENSION: Final = "io.modelcontextprotocol/skills"
MOST_SKILLS: Final = 500
"""Of one connection."""
MOST_BYTES_TOGETHER: Final = 128 * 1024 * 1024
"""Of all files that one connection offers."""
SKILL_SECONDS: Final = 30.0
"""For the files of one skill."""


async def read(session: OffersSession, spec: ConnectionSpec, scrub: Scrubber) -> dict[str, Listed] | None:
    """Return the skills that an upstream offers. Raises the errors of its lists, and SessionLost."""
    known = await sync_to_async(_KnownSkills.load)(spec.id)
    if not session.era.declares(EXTENSION):
        return {} if known.offered else None
    found: dict[str, Listed] = {}
    left = MOST_BYTES_TOGETHER
    for raw in await _entries(session, known):
        uri = entries.uri_of_entry(raw)
        try:
            if uri in found:
                raise SkillRefused(_t("The upstream lists it twice."))
            entry = entries.entry_of(scrub.value(raw), may_be_generated=spec.generated_skills)
            left -= entry.size
            if left < 0:
                words = _t("The skills of one connection are at most %(most)d bytes together.")
                raise SkillRefused(words % {"most": MOST_BYTES_TOGETHER})
            if not known.has(entry):
                async with asyncio.timeout(SKILL_SECONDS):
                    given = await _files(session, entry, scrub)
                await sync_to_async(_store)(spec.id, entry, given)
        except (SkillRefused, UpstreamError, ResultInvalid) as error:
            one = entries.refused(scrub.value(raw), scrub.text(str(error))[:1000])
            found[one.name] = one
        except TimeoutError:
            session.cut[KIND] = f"The files of {uri[:200]} were not read within {SKILL_SECONDS:g} s."
            if (kept := await sync_to_async(_as_seen)(spec.id, uri)) is not None:
                found[uri] = kept
        else:
            found[uri] = entry.listed()
    await sync_to_async(_forget_others)(spec.id, list(found))
    return found


async def read_shown(session: OffersSession, spec: ConnectionSpec, scrub: Scrubber) -> dict[str, Listed]:
    """Return the skills in the list of a person's account, without their files. Raises as `read`."""
    if not session.era.declares(EXTENSION):
        return {}
    found: dict[str, Listed] = {}
    known = await sync_to_async(_KnownSkills.load)(spec.id)
    for raw in await _entries(session, known):
        with contextlib.suppress(SkillRefused):
            entry = entries.entry_of(scrub.value(raw), may_be_generated=spec.generated_skills)
            found[entry.uri] = entry.listed()
    return found


@dataclass(frozen=True, slots=True)
class _KnownSkills:
    """What the hub has of one connection's skills."""

    versions: Mapping[str, tuple[str, str]]
    """Digests of the manifest and of the frontmatter whose files are stored, by URI."""
    offered: frozenset[str]
    approved: frozenset[str]

    @classmethod
    def load(cls, connection_id: int) -> _KnownSkills:
        stored = SkillVersion.objects.filter(connection=connection_id).values_list("uri", "digest", "frontmatter")
        offers = McpUpstreamTool.objects.filter(connection=connection_id, kind=KIND, is_gone=False)
        offered = dict(offers.values_list("upstream_name", "approved_digest"))
        return cls(
            {uri: (digest, _digest(frontmatter)) for uri, digest, frontmatter in stored},
            frozenset(offered),
            frozenset(uri for uri, digest in offered.items() if digest),
        )

    def has(self, entry: RelayedEntry) -> bool:
        return self.versions.get(entry.uri) == (digest_of(entry.definition), _digest(entry.frontmatter))


def digest_of(definition: Mapping[str, Json]) -> str:
    """Return the digest of an offer's manifest, as that of a version."""
    files = definition["files"]
    return manifest_digest(() if files == entries.DYNAMIC else ((path, file["digest"]) for path, file in files.items()))


def is_of(version: SkillVersion, definition: Mapping[str, Json]) -> bool:
    """Return whether these are the files of an offer."""
    is_same = "files" in definition and version.digest == digest_of(definition)
    return is_same and _digest(version.frontmatter) == _digest(definition["frontmatter"])


async def _entries(session: OffersSession, known: _KnownSkills) -> list[Json]:
    """Return the listed entries, and those of approved skills that a partial list does not have."""
    found = [raw for raw in await session.pages(KIND, "skills/list", "skills") if entries.uri_of_entry(raw)]
    for uri in sorted(known.approved - {entries.uri_of_entry(raw) for raw in found})[:MOST_SKILLS]:
        try:
            raw = (await session.ask("skills/get", {"uri": uri})).get("skill")
        except UpstreamError:
            continue  # it is gone
        if entries.uri_of_entry(raw) == uri:
            found.insert(0, raw)
    if len(found) > MOST_SKILLS:
        session.cut[KIND] = f"The list of skills was cut after {MOST_SKILLS}."
    return found[:MOST_SKILLS]


async def _files(session: OffersSession, entry: RelayedEntry, scrub: Scrubber) -> SkillContents:
    """Read the files of a skill; of one without a manifest its SKILL.md as it is now.

    Raises SkillRefused, and the errors of reads.
    """
    files: dict[str, bytes] = {}
    uris = {ENTRY: entry.uri} if entry.files is None else {path: file.uri for path, file in entry.files.items()}
    for path, uri in uris.items():
        result = await session.ask("resources/read", {"uri": uri})
        if scrub.is_needed and scrub.value(result) != result:
            raise SkillRefused(_t("%(path)s contains a secret that the hub keeps.") % {"path": path[:100]})
        files[path] = entries.raw_of(uri, path, result)
        if entry.files is not None:
            entries.check_content(entry.files[path], path, files[path])
    given = entries.checked(entry, files)
    check_reads(given)
    return given


def _store(connection_id: int, entry: RelayedEntry, given: SkillContents) -> None:
    """Keep the files in place of those that were offered before."""
    found = {path: kinds for path, raw in given.files.items() if (kinds := kinds_in(raw))}
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        if connection is None:
            return
        rows = SkillVersion.objects.filter(connection=connection, uri=entry.uri)
        if (before := rows.first()) is not None:
            if is_of(before, entry.definition):
                return  # another process read it meanwhile
            before.delete()
        version = SkillVersion.objects.create(
            connection=connection,
            uri=entry.uri,
            digest=digest_of(entry.definition),
            frontmatter=entry.frontmatter,
            is_generated=entry.files is None,
            warnings=found,
        )
        version.keep(given)


def _as_seen(connection_id: int, uri: str) -> Listed | None:
    """Return an offer as it is known, for one that could not be read now."""
    row = McpUpstreamTool.objects.filter(connection=connection_id, kind=KIND, upstream_name=uri, is_gone=False).first()
    return None if row is None else Listed(uri, row.seen, row.seen_digest, row.seen_schema_digest, row.refusal)


def _forget_others(connection_id: int, uris: list[str]) -> None:
    SkillVersion.objects.filter(connection=connection_id).exclude(uri__in=uris).delete()


def _digest(value: Json) -> str:
    return json.digest(json.canonical(value))
