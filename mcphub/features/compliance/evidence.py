"""Evidence of a period: one signed archive that an outsider reads and checks without the hub.

A zip file. `manifest.json` names the period, the log and each other file with its size, lines and SHA-256;
`manifest.sig` is the signature of `MARK` and the manifest by the audit's key, as `NAME ID BASE64`. Files of lines are
JSON, one object a line. Whoever has `public.keys` from another source runs `mcphub audit evidence --check`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone, translation

from invocations.chain.commanding import CommandFailed, Signs
from invocations.chain.keys import KeyProblem
from invocations.chain.models import AuditBlock, AuditHold, AuditPolicy, AuditTombstone, AuditVerification
from invocations.chain.verifier import Bad, PublicKey
from invocations.models import McpToolInvocation
from mcphub.features.compliance import report
from mcphub.parts import EvidenceFile
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.kit.features import declared, loaded
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import Scope, acting_in

Row = Mapping[str, Json | date]

MARK: Final = b"mcphub evidence 1\n"
"""Before the manifest in the signed bytes, so that the signature serves for nothing else."""
UNUSED_DAYS: Final = 90
_MANIFEST, _SIGNATURE = "manifest.json", "manifest.sig"
_MOST_MANIFEST_BYTES: Final = 1_000_000
_PIECE: Final = 1 << 20
_ROWS: Final = 2000
_DECIDED: Final = (
    "policy_denied",
    "writes_stopped",
    "guardrail_refused",
    "guardrail_failed",
    "quota_reached",
    "rate_limited",
    "forbidden",
)
"""Codes of calls that a rule, a guardrail, a quota or a missing right refused; denied approvals have their own file."""


@dataclass(frozen=True, slots=True)
class Period:
    """From a moment on, before another; in a workspace or everywhere."""

    since: datetime
    until: datetime
    scope: Scope | None = None

    def of(self, rows: QuerySet[Any], moment: str) -> QuerySet[Any]:
        return rows.filter(**{f"{moment}__gte": self.since, f"{moment}__lt": self.until})

    def calls(self) -> QuerySet[Any]:
        return self.of(McpToolInvocation.objects.all(), "received_at")


@dataclass(slots=True)
class Gathered:
    """Figures and first rows for the report, gathered while files are written."""

    numbers: Counter[str] = field(default_factory=Counter)
    tables: dict[str, list[dict[str, Json]]] = field(default_factory=dict)


def write(out: Path, period: Period, signer: Signs, language: str) -> dict[str, Json]:
    """Write the archive, for the owner alone; return its manifest. Raises KeyProblem where nothing can be signed.

    Raises FileExistsError where there is such a file.
    """
    draft = out.with_name(f"{out.name}.{os.getpid()}.draft")
    if out.exists():
        raise FileExistsError(17, "File exists", str(out))
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            manifest = write_into(file, period, signer, language)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def contents(period: Period) -> dict[str, Iterable[Row]]:
    """Return the lines of each file, which are read while they are written; those of features included."""
    return {
        "blocks.jsonl": _blocks(period),
        "verifications.jsonl": _verifications(period),
        "removals.jsonl": _removals(period),
        "retention.jsonl": _retention(period),
        "changes.jsonl": _changes(period),
        "second-person.jsonl": _waiting(period),
        "refused.jsonl": _refused(period),
        "tools.jsonl": _counted(period, "tool_name", "tool_version", "tool_digest"),
        "callers.jsonl": _counted(period, "principal", "caller_label", "allowed_client", "tool_name"),
        "access.jsonl": _access(period),
        **{part.name: loaded(part.lines)(period.since, period.until) for part in declared(EvidenceFile)},
    }


def write_into(file: IO[bytes], period: Period, signer: Signs, language: str) -> dict[str, Json]:
    """Write the archive into a file that need not be seekable; return its manifest. Raises KeyProblem."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, acting_in(period.scope):
        return _filled(archive, period, signer, language)


def _filled(archive: zipfile.ZipFile, period: Period, signer: Signs, language: str) -> dict[str, Json]:
    gathered = Gathered()
    files: dict[str, dict[str, Json]] = {}
    for name, lines in contents(period).items():
        files[name] = _written(archive, name, lines, gathered)
    with translation.override("en"):
        for part in declared(EvidenceFile):
            if part.words:
                files[part.name] = {**files[part.name], "words": str(part.words)}
    calls = period.calls()
    gathered.numbers["calls"] = calls.count()
    gathered.numbers["failed"] = calls.filter(status="error").count()
    gathered.numbers["found by guardrails"] = calls.exclude(Q(guardrails=None) | Q(guardrails="")).count()
    manifest: dict[str, Json] = {
        "format": "mcphub evidence 1",
        "from": period.since.isoformat(),
        "until": period.until.isoformat(),
        "workspace": period.scope.slug if period.scope else None,
        "made_at": timezone.now().isoformat(),
        "version": settings.MCPHUB_VERSION,
        "log": signer.public.name,
        "key": signer.public.key_id,
        "frames": list(settings.MCPHUB_COMPLIANCE),
        "files": files,
    }
    page = report.page(manifest, gathered.numbers, gathered.tables, language).encode()
    with archive.open("report.html", "w") as file:
        file.write(page)
    files["report.html"] = {"bytes": len(page), "sha256": hashlib.sha256(page).hexdigest()}
    text = json.canonical(manifest).encode()
    archive.writestr(_MANIFEST, text)
    try:
        signature = signer.sign(MARK + text)
    except CommandFailed as failure:
        raise KeyProblem(f"MCPHUB_SIGNING_COMMAND: {failure}.") from failure
    words = f"{signer.public.name} {signer.public.key_id} {base64.b64encode(signature).decode()}\n"
    archive.writestr(_SIGNATURE, words)
    return manifest


def _written(archive: zipfile.ZipFile, name: str, lines: Iterable[Row], gathered: Gathered) -> dict[str, Json]:
    size = count = 0
    digest = hashlib.sha256()
    kept = gathered.tables.setdefault(name, [])
    with archive.open(name, "w", force_zip64=True) as file:
        for row in lines:
            line = {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}
            text = json.dumps(line) + b"\n"
            file.write(text)
            digest.update(text)
            size, count = size + len(text), count + 1
            if len(kept) < report.MOST_ROWS:
                kept.append(line)
    gathered.numbers[name] = count
    return {"bytes": size, "lines": count, "sha256": digest.hexdigest()}


# What is in it ------------------------------------------------------------------------------------------


def _rows(rows: QuerySet[Any], *fields: str) -> Iterator[Row]:
    yield from rows.order_by("pk").values(*fields).iterator(_ROWS)


def _blocks(period: Period) -> Iterator[Row]:
    """Blocks that were sealed in the period: whoever has an export of the log compares its roots."""
    return _rows(
        period.of(AuditBlock.objects.all(), "sealed_at"),
        *("number", "sealed_at", "row_count", "tree_root", "key_id", "signature"),
    )


def _verifications(period: Period) -> Iterator[Row]:
    rows = period.of(AuditVerification.objects.all(), "verified_at")
    # The background looks every few seconds: what it found counts, and that it looked each day.
    yield from _rows(rows.exclude(way="watch", problem=""), "verified_at", "way", "size", "blocks", "problem")
    days = rows.filter(way="watch", problem="").values("verified_at__date").annotate(runs=Count("pk"))
    for day in days.order_by("verified_at__date"):
        yield {"day": day["verified_at__date"], "way": "watch", "runs": day["runs"], "problem": ""}


def _removals(period: Period) -> Iterator[Row]:
    """Removals in the period, and those of its blocks whenever they were."""
    sealed = period.of(AuditBlock.objects.all(), "sealed_at").aggregate(first=Min("number"), last=Max("number"))
    wanted = Q(removed_at__gte=period.since, removed_at__lt=period.until)
    if sealed["first"] is not None:
        wanted |= Q(last_block__gte=sealed["first"], first_block__lte=sealed["last"])
    return _rows(
        AuditTombstone.objects.filter(wanted),
        *("removed_at", "kind", "first_block", "last_block", "row_count", "text", "signature"),
    )


def _retention(period: Period) -> Iterator[Row]:
    policy = AuditPolicy.objects.first()
    yield {"rows_days": policy.rows_days if policy else None, "bodies_days": policy.bodies_days if policy else None}
    for hold in AuditHold.objects.order_by("pk") if period.scope is None else ():
        yield {
            "hold": hold.name,
            "reason": hold.reason,
            "covers": hold.description(),
            "set": hold.created_at,
            "released": hold.released_at,
        }


def _changes(period: Period) -> Iterator[Row]:
    rows = period.of(AuditEvent.objects.all(), "happened_at")
    fields = ("id", "happened_at", "kind", "actor", "actor_label", "via", "subject_model", "subject_id")
    return _rows(rows, *fields, "subject_label", "before", "after", "reason")


def _waiting(period: Period) -> Iterator[Row]:
    rows = period.of(WaitingChange.objects.all(), "created_at")
    fields = ("created_at", "subject_model", "subject_label", "before", "after", "reason", "proposer_label")
    return _rows(rows, *fields, "state", "decided_by", "decided_at", "answer")


def _refused(period: Period) -> Iterator[Row]:
    """Calls that were refused, and those of which something is masked on record. Bodies are not in it."""
    rows = period.calls().filter(Q(error_code__in=_DECIDED) | Q(guardrails__gt=""))
    fields = ("invocation_id", "received_at", "caller_label", "tool_name", "tool_version", "error_code")
    return _rows(rows, *fields, "policy_rule", "policy_version", "guardrails", "occurrences")


def _counted(period: Period, *by: str) -> Iterator[Row]:
    """Calls by some columns: how many, how many of them failed, the first and the last."""
    found = period.calls().values(*by).annotate(calls=Count("pk"), failed=Count("pk", filter=Q(status="error")))
    found = found.annotate(first=Min("received_at"), last=Max("received_at"))
    yield from found.order_by(*by).iterator(_ROWS)


def _access(period: Period) -> Iterator[Row]:
    """People and keys that exist now: what they may do, when they last did, and whether not for `UNUSED_DAYS`."""
    before = timezone.now() - timedelta(days=UNUSED_DAYS)
    if period.scope is None:
        for person in get_user_model().objects.order_by("pk").prefetch_related("groups", "second_factors"):
            yield {
                "person": person.get_username(),
                "active": person.is_active,
                "superuser": person.is_superuser,
                "groups": sorted(group.name for group in person.groups.all()),
                "second_factors": sorted(factor.kind for factor in person.second_factors.all()),
                "last_login": person.last_login,
                "unused": person.is_active and (person.last_login or person.date_joined) < before,
            }
    for key in ApiKey.objects.order_by("pk").select_related("owner").prefetch_related("groups"):
        usable = key.revoked_at is None and (key.expires_at is None or key.expires_at > timezone.now())
        yield {
            "key": key.name,
            "prefix": key.prefix,
            "owner": key.owner.get_username() if key.owner is not None else None,
            "service": key.service,
            "scopes": list(key.scopes),
            "groups": sorted(group.name for group in key.groups.all()),
            "created": key.created_at,
            "expires": key.expires_at,
            "revoked": key.revoked_at,
            "last_used": key.last_used_at,
            "unused": usable and (key.last_used_at or key.created_at) < before,
        }


# Checked by an outsider ----------------------------------------------------------------------------------


def check(file: Path, trusted: list[PublicKey]) -> dict[str, Json]:
    """Return the manifest of an archive that is as it was signed by one of the trusted keys; raise Bad."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _checked(archive, trusted)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, zlib.error) as error:
        raise Bad(f"{file} is no evidence archive, or it is damaged: {error}") from error


def _checked(archive: zipfile.ZipFile, trusted: list[PublicKey]) -> dict[str, Json]:
    names = archive.namelist()
    if len(names) != len(set(names)):
        raise Bad("a file stands in the archive twice")
    with archive.open(_MANIFEST) as file:
        text = file.read(_MOST_MANIFEST_BYTES)
    with archive.open(_SIGNATURE) as file:
        words = file.read(1000).decode("ascii", "replace").split()
    if len(words) != 3:
        raise Bad(f"{_SIGNATURE} is not a name, an ID and a signature")
    key = next((key for key in trusted if (key.name, key.key_id) == (words[0], words[1])), None)
    if key is None:
        raise Bad(f"the archive is signed with {words[0]} {words[1]}, which is none of the trusted keys")
    try:
        signature = base64.b64decode(words[2], validate=True)
    except ValueError as error:
        raise Bad("the signature is no Base64") from error
    if not key.has_signed(signature, MARK + text):
        raise Bad("the manifest is not what was signed")
    manifest: Any = json.loads_stored(text.decode())
    files: dict[str, Any] = manifest["files"]
    if more := sorted(set(names) - set(files) - {_MANIFEST, _SIGNATURE}):
        raise Bad(f"{more[0]} is not in the manifest")
    for name, promised in files.items():
        if name not in names:
            raise Bad(f"{name} is missing")
        with archive.open(name) as file:
            if _digest(file, promised["bytes"]) != promised["sha256"]:
                raise Bad(f"{name} is not as it was signed")
    return dict(manifest)


def _digest(file: IO[bytes], most: int) -> str:
    digest, read = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        read += len(piece)
        if read > most:
            return ""
        digest.update(piece)
    return digest.hexdigest()
