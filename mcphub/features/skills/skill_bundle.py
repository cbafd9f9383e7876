"""The hub's own skills in bundles: files by path, texts as they are, other bytes in Base64.

Those of upstreams come back by their own lists, and by approval.
"""

from __future__ import annotations

from mcphub.features.skills.models import Skill
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import LoadableModel

KIND = "skills"

SKILL = Kind(
    name="skill",
    model=Skill,
    key="path",
    came_by=LoadableModel.came_by,
    wire={"files": "bundled_files"},
    definition={"path": str, "files": dict, "nested": list},
    operation={"enabled": bool, "as_prompt": bool, "groups": list},
    always=("files", "enabled"),
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, _dump))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(SKILL, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _dump() -> list[dict[str, Json]]:
    return entries.dump_rows(SKILL, Skill.objects.filter(offer=None))


def _complete(entry: Json) -> dict[str, Json]:
    check_members(entry, SKILL)
    for member in ("path", "files"):
        if not entry.get(member):
            raise ValueError(f"{member}: it is missing.")
    return dict(entry)
