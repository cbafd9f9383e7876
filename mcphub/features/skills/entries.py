"""Skills of upstreams as their entries describe them: read with bounds, and told apart by digests. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from django.utils.translation import gettext as _t

from mcphub.features.skills import contents
from mcphub.features.skills.contents import ENTRY, MOST_BYTES, MOST_FILES, SCHEME, SkillContents, SkillRefused
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.upstream.listing import Listed, storable

LONGEST_URI = 1000
DYNAMIC = "dynamic"
"""In place of a manifest: the upstream makes the files at each read."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file in the manifest of an upstream."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class RelayedEntry:
    """A skill as `skills/list` of an upstream has it. Identity is the connection with this URI."""

    uri: str
    frontmatter: dict[str, Any]
    files: Mapping[str, EntryFile] | None
    """By path; None of one whose files the upstream makes at each read."""

    @property
    def definition(self) -> dict[str, Json]:
        """Return the subject of an approval: every file by its path, with its digest."""
        files: Json = DYNAMIC
        if self.files is not None:
            files = {path: {"digest": file.digest, "size": file.size} for path, file in sorted(self.files.items())}
        return {"uri": self.uri, "frontmatter": self.frontmatter, "files": files}

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files.values()) if self.files is not None else 0

    def listed(self) -> Listed:
        return listed(self.definition)


def uri_of_entry(raw: Json) -> str:
    """Return the URI of an entry; empty for anything else."""
    uri = raw.get("uri") if isinstance(raw, dict) else None
    return uri if isinstance(uri, str) else ""


def entry_of(raw: dict[str, Json], *, may_be_generated: bool) -> RelayedEntry:
    """Return an entry, checked as far as it can be without its files. Raises SkillRefused."""
    uri, frontmatter, resources = uri_of_entry(raw), raw.get("frontmatter"), raw.get("resources")
    if len(uri) > LONGEST_URI or storable(uri) != uri or not uri.endswith(f"/{ENTRY}"):
        raise SkillRefused(
            _t("The URI of a skill is that of its SKILL.md, of at most %(most)d characters.") % _MOST_URI
        )
    if not isinstance(frontmatter, dict):
        raise SkillRefused(_t("The entry has no frontmatter."))
    contents.check_frontmatter(frontmatter)
    root = uri.removesuffix(f"/{ENTRY}")
    if root.rpartition("/")[2] != frontmatter["name"]:
        raise SkillRefused(_t("The URI must end with the name in SKILL.md: %(name)s.") % {"name": frontmatter["name"]})
    if resources == DYNAMIC and may_be_generated:
        return RelayedEntry(uri, frontmatter, None)
    if resources == DYNAMIC:
        raise SkillRefused(
            _t("The upstream generates its files, so no approval could be bound to them. The connection may allow it.")
        )
    if not isinstance(resources, list) or len(resources) > MOST_FILES:
        raise SkillRefused(_t("The entry must list its files, at most %(most)d.") % {"most": MOST_FILES})
    files: dict[str, EntryFile] = {}
    for each in resources:
        path, file = _file_of(each, root)
        if path in files:
            raise SkillRefused(_t("%(path)s is there twice.") % {"path": path[:100]})
        files[path] = file
    if ENTRY not in files:
        raise SkillRefused(_t("There is no SKILL.md at the top."))
    entry = RelayedEntry(uri, frontmatter, files)
    if entry.size > MOST_BYTES:
        raise SkillRefused(_t("The files of a skill are at most %(most)d bytes together.") % {"most": MOST_BYTES})
    return entry


def listed(definition: dict[str, Json], refusal: str = "") -> Listed:
    """Return the offer of a definition. The reason of a refusal is part of its digest: mended, it is another offer."""
    digest = json.digest(json.canonical([definition, refusal]))
    return Listed(str(definition["uri"]), definition, digest, digest, refusal)


def refused(raw: Json, refusal: str) -> Listed:
    """Return the offer of an entry that cannot be made available, with its well-formed part."""
    uri = storable(uri_of_entry(raw)[:LONGEST_URI])
    try:
        return listed({**entry_of(raw, may_be_generated=True).definition, "uri": uri}, refusal)
    except SkillRefused:
        return listed({"uri": uri}, refusal)


def check_content(file: EntryFile, path: str, raw: bytes) -> None:
    """Raise SkillRefused where the bytes of a file are not those of the manifest."""
    if len(raw) != file.size or contents.digest_of(raw) != file.digest:
        raise SkillRefused(
            _t("%(path)s is not what the entry describes: size or digest differ.") % {"path": path[:100]}
        )


def raw_of(uri: str, path: str, result: Mapping[str, Json]) -> bytes:
    """Return the bytes in the result of a read. Raises SkillRefused where there are none."""
    found = result.get("contents")
    parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    part = next((part for part in parts if part.get("uri") == uri), parts[0] if len(parts) == 1 else {})
    text, blob = part.get("text"), part.get("blob")
    try:
        if isinstance(text, str):
            return text.encode()
        return base64.b64decode(blob if isinstance(blob, str) else "~", validate=True)
    except (ValueError, binascii.Error):
        raise SkillRefused(_t("%(path)s cannot be read at the upstream.") % {"path": path[:100]}) from None


def checked(entry: RelayedEntry, files: Mapping[str, bytes]) -> SkillContents:
    """Return the skill of the files that were read. Raises SkillRefused where SKILL.md and entry differ."""
    found = contents.of_files(files)
    if contents.reading_of(files[ENTRY], entry.frontmatter) is None:
        raise SkillRefused(_t("The frontmatter of the entry differs from that in SKILL.md."))
    return found


def place_of(slug: str, uri: str) -> str:
    """Return the path here of a connection's skill: the connection, a full stop and the path there, its slashes but the
    last one as full stops. No two URIs of connections have one path, and none lies within another.
    """
    root = uri.removesuffix(f"/{ENTRY}")
    *before, name = root.removeprefix(SCHEME).split("/")
    place = "/".join([".".join([slug, *before]), name])
    if root.startswith(SCHEME) and all(map(_PLAIN.fullmatch, before)) and len(place) <= contents.LONGEST_PATH:
        return place
    return f"{slug}.~{json.digest(uri)[:16]}/{name}"


_MOST_URI = {"most": LONGEST_URI}


def _file_of(raw: Json, root: str) -> tuple[str, EntryFile]:
    uri, digest, size = (raw.get(name) for name in ("uri", "digest", "size")) if isinstance(raw, dict) else ("", "", 0)
    if not isinstance(uri, str) or not uri.startswith(f"{root}/") or len(uri) > 4 * LONGEST_URI:
        raise SkillRefused(_t("Each file of a skill lies in the folder of its SKILL.md."))
    path = unquote(uri.removeprefix(f"{root}/"))
    contents.check_path(path)
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise SkillRefused(_t("%(path)s has no SHA-256 digest.") % {"path": path[:100]})
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise SkillRefused(_t("%(path)s has no size.") % {"path": path[:100]})
    return path, EntryFile(uri, digest, size)
