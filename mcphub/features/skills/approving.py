"""Offers of skills as the catalogue's machinery of offers handles them: named, approved, compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _t

from mcphub.features.skills import contents, entries, relaying
from mcphub.features.skills.contents import SkillRefused
from mcphub.features.skills.models import Skill, SkillVersion
from sessions_app.kit.shown import visible
from sessions_app.workspaces.scope import whole_hub

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User
    from django.db.models import QuerySet

    from tools_catalog.models import McpConnection, McpUpstreamTool

_MOST_SHOWN = 50
"""Files with their text on the page of an offer, and findings named."""
_MOST_CHARACTERS = 100_000
"""Of all texts of one offer there; of others the size and digest."""


class RelayedSkills:
    """Skills among the offers of upstreams: an approval makes a copy, which the hub serves."""

    read = staticmethod(relaying.read)
    read_shown = staticmethod(relaying.read_shown)

    def public_name(self, connection: McpConnection, upstream_name: str) -> str:
        return contents.uri_of(entries.place_of(connection.slug, upstream_name))

    def refusal_of(self, row: McpUpstreamTool) -> str:
        version = _offered(row)
        if version is None or not relaying.is_of(version, row.seen):
            return row.refusal or _t("Its files are not read yet. Try again in a minute.")
        try:
            self._copy(row, version).full_clean()
        except SkillRefused as error:
            return str(error)
        except ValidationError as error:
            return " ".join(error.messages)
        return ""

    def rows_of(self, connection: McpConnection) -> QuerySet[Skill]:
        return Skill.objects.filter(offer__connection=connection)

    def served(self, row: McpUpstreamTool) -> Skill | None:
        return Skill.objects.filter(offer=row.pk).first() if row.pk is not None else None

    def serve(self, row: McpUpstreamTool, *, author: User | AnonymousUser | str | None, reason: str) -> Skill:
        version = _offered(row)
        assert version is not None  # by refusal_of, in this transaction
        skill = self._copy(row, version)
        is_new = skill.pk is None
        skill.change_reason = reason
        skill.full_clean()
        skill.save()
        if is_new:
            skill.groups.set(row.connection.groups.all())
        return skill

    def warnings(self, row: McpUpstreamTool) -> dict[str, int]:
        version = _offered(row)
        found: Mapping[str, Mapping[str, int]] = {} if version is None else version.warnings
        each = ((path, kind, count) for path, kinds in sorted(found.items()) for kind, count in sorted(kinds.items()))
        named = {f"{kind} ({visible(path, one_line=True)})": count for path, kind, count in [*each][:_MOST_SHOWN]}
        return named | ({"generated": 1} if version is not None and version.is_generated else {})

    def texts(self, row: McpUpstreamTool) -> tuple[dict[str, object], dict[str, object]]:
        version, skill = _offered(row), self.served(row)
        approved = {} if skill is None else _digests(skill.current())
        now = {} if version is None else _digests(version)
        differing = sorted(path for path in approved.keys() | now.keys() if approved.get(path) != now.get(path))
        differing.sort(key=lambda path: path != contents.ENTRY)
        shown = differing[:_MOST_SHOWN]
        return (
            {} if skill is None else _texts(skill.current(), shown),
            {} if version is None else _texts(version, shown),
        )

    def _copy(self, row: McpUpstreamTool, version: SkillVersion) -> Skill:
        """Return the skill that the hub serves, with the files that are offered, not saved. Raises SkillRefused."""
        with whole_hub():
            skill = self.served(row) or Skill(
                path=entries.place_of(row.connection.slug, row.upstream_name),
                offer=row if row.pk is not None else None,
                workspace=row.connection.workspace,
            )
        skill.relay(version)
        return skill


relayed = RelayedSkills()


def _offered(row: McpUpstreamTool) -> SkillVersion | None:
    """Return the files of the offer as last read."""
    return SkillVersion.objects.filter(connection=row.connection_id, uri=row.upstream_name).first()


def _digests(version: SkillVersion) -> dict[str, str]:
    return dict(version.files.values_list("path", "content_id"))


def _texts(version: SkillVersion, paths: list[str]) -> dict[str, object]:
    """Return the files at these paths as texts; of other bytes the digest and size."""
    found: dict[str, object] = {}
    left = _MOST_CHARACTERS
    files = version.files.filter(path__in=paths).select_related("content")
    for file in sorted(files, key=lambda each: paths.index(each.path)):
        text = contents.text_of(bytes(file.content.raw))
        left -= len(text or "")
        if text is None or left < 0:
            found[visible(file.path, one_line=True)] = _t("%(size)d bytes, %(digest)s") % {
                "size": file.size,
                "digest": file.content_id,
            }
        else:
            found[visible(file.path, one_line=True)] = text
    return found
