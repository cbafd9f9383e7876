"""Bodies that retention erased: in the place of each stands its digest, as a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, QuerySet

from invocations.chain.models import AuditTombstone
from invocations.columns import INVOCATION
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from invocations.models import McpToolInvocation

_MARK = "is_erased"


def is_erased() -> Exists:
    """Give, as a condition on calls, whether a removal erased the bodies of one."""
    number = OuterRef("id")
    return Exists(
        AuditTombstone.objects.filter(kind="bodies", invocations_after__lt=number, invocations_through__gte=number)
    )


def marked(rows: QuerySet[McpToolInvocation]) -> QuerySet[McpToolInvocation]:
    """Return the rows with the columns that `left_out` needs when bodies are not read."""
    found: QuerySet[Any] = rows.annotate(**{_MARK: is_erased()})
    return found


def digest_of(body: Json) -> str:
    """Return the SHA-256, in hexadecimal, of a body that was erased; empty for one that is here, or never was."""
    return body.removeprefix("sha256:") if isinstance(body, str) else ""


def left_out(row: McpToolInvocation) -> dict[str, Json] | None:
    """Return the parts of a call's bodies that are not recorded, by body; None: everything is.

    The digest of an erased body is included if the row was read with its bodies.
    """
    found = dict(row.left_out or {})
    read = row.__dict__
    for name in INVOCATION.bodies:
        if name in read:
            if digest := digest_of(read[name]):
                found[name] = {"sha256": digest, **found.get(name, {}), "erased": True}
        elif read.get(_MARK) and name != ("error" if row.status == "ok" else "result"):
            found[name] = {**found.get(name, {}), "erased": True}
    return found or None
