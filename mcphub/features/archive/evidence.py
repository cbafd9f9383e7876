"""The archived months of a period, in an archive of evidence: they hold the rows that retention removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Exists, OuterRef, Sum

from invocations.chain.models import AuditBlock, AuditTombstone
from invocations.chain.verifier import Bad
from mcphub.features.archive.manifests import Manifest
from mcphub.features.archive.searching import manifests_of_settings
from mcphub.features.archive.verifying import ARCHIVED
from mcphub.features.archive.writing import following
from sessions_app.history.models import AuditEvent
from sessions_app.workspaces.scope import current, whole_hub

_MOST_RECORDS: Final = 5000
"""Newest records of archived months that are looked at: those of some centuries."""
_Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Span:
    since: datetime
    until: datetime

    def meets(self, line: _Line, manifest: Manifest | None) -> bool:
        """Return whether the month, a call in its files, or a removal of its rows is in the period."""
        if self._meets(_begin(line["month"]), _begin(following(line["month"])) - timedelta(microseconds=1)):
            return True
        calls = [] if manifest is None else [each["calls"] for each in manifest.files.values() if each.get("calls")]
        if any(self._meets(*map(datetime.fromisoformat, each["started"])) for each in calls):
            return True
        removed = _removals(line).filter(removed_at__gte=self.since, removed_at__lt=self.until)
        return bool(removed.exists())

    def _meets(self, first: datetime, last: datetime) -> bool:
        return first < self.until and last >= self.since


def archived(since: datetime, until: datetime) -> Iterator[_Line]:
    """Return the months that the log records or the hub's archive holds, with the number of rows removed since.

    A month's `state` is `as signed`, `unreadable`, `missing` or `elsewhere`. An archive that cannot be read is a line
    of its own, too, since nobody knows its months. Within a workspace no place is told: it is the hub's.
    """
    span, problem = _Span(since, until), ""
    found: list[Manifest] = []
    try:
        found = manifests_of_settings()
    except Bad as bad:
        problem = str(bad)
    except OSError as error:
        problem = error.strerror or str(error)
    place = str(settings.MCPHUB_ARCHIVE_DIR).rstrip("/")
    read = {manifest.digest: manifest for manifest in found}
    lines = {line["manifest"]: line for line in _recorded()}
    lines |= {digest: _of_manifest(manifest) for digest, manifest in read.items()}
    hidden = set() if current() is None else {"place"}
    if problem:
        yield _without(hidden, {"place": place, "state": "unreadable", "problem": problem})
    for digest, line in sorted(lines.items(), key=lambda item: (item[1]["month"], item[1]["place"])):
        manifest = read.get(digest)
        if not span.meets(line, manifest):
            continue
        if manifest is not None:
            state = "as signed"
        elif line["place"] != f"{place}/{line['month']}":
            state = "elsewhere"
        else:
            state = "unreadable" if problem else "missing"
        yield _without(hidden, {**line, "removed_rows": _removed_rows(line), "state": state})


def _without(hidden: set[str], line: _Line) -> _Line:
    return {name: value for name, value in line.items() if name not in hidden}


def _recorded() -> list[_Line]:
    """Return the months that the log records: events of the whole hub, as its blocks are."""
    with whole_hub():
        events = AuditEvent.objects.filter(kind=ARCHIVED).order_by("-pk")[:_MOST_RECORDS]
        return [_line(each.after, each.after["manifest"], each.after["folder"]) for each in events]


def _of_manifest(manifest: Manifest) -> _Line:
    return _line(manifest.values, manifest.digest, f"{manifest.place}/{manifest.month}")


def _line(values: Any, digest: str, place: str) -> _Line:
    kept = {name: values[name] for name in ("month", "rows", "first_block", "last_block")}
    return {**kept, "manifest": digest, "place": place}


def _removals(line: _Line) -> Any:
    rows = AuditTombstone.objects.filter(kind=AuditTombstone.Kind.ROWS)
    return rows.filter(last_block__gte=line["first_block"], first_block__lte=line["last_block"])


def _removed_rows(line: _Line) -> int:
    covers = _removals(line).filter(first_block__lte=OuterRef("number"), last_block__gte=OuterRef("number"))
    blocks = AuditBlock.objects.filter(number__gte=line["first_block"], number__lte=line["last_block"])
    return blocks.filter(Exists(covers)).aggregate(rows=Sum("row_count"))["rows"] or 0


def _begin(month: str) -> datetime:
    return datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
