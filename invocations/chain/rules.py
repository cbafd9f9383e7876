"""Rules in the database itself: recorded rows cannot be changed, or deleted without a tombstone."""

from __future__ import annotations

from invocations.chain.tables import ENVELOPE, EVENT, INVOCATION, Audited
from sessions_app.kit.triggers import AppendOnlyTrigger, Dialects

_TOMBSTONES = "invocations_audittombstone"


def _covered(of: Audited, kind: str) -> str:
    """Return whether a tombstone of `kind` covers the row OLD."""
    return (
        f"OLD.id > coalesce((SELECT {of.name}s_after FROM {_TOMBSTONES} WHERE kind = '{kind}' "  # noqa: S608 - our own names
        f"AND {of.name}s_through >= OLD.id ORDER BY {of.name}s_through, {of.name}s_after LIMIT 1), OLD.id)"
    )


def _only_bodies_go(of: Audited) -> Dialects:
    """Return whether nothing changes but bodies, each to its own digest (SQLite cannot compute it: to any)."""
    kept = [name for name in of.columns if name not in of.bodies]
    sqlite = [f"NEW.{name} IS OLD.{name}" for name in kept]
    postgresql = [f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in kept]
    for body in of.bodies:
        sqlite.append(
            f"(NEW.{body} IS OLD.{body} OR (length(NEW.{body}) = 73 AND substr(NEW.{body}, 1, 8) = '\"sha256:'))"
        )
        postgresql.append(
            f"(NEW.{body} IS NOT DISTINCT FROM OLD.{body} OR NEW.{body} = '\"sha256:' || "
            f"encode(pg_catalog.sha256(convert_to(OLD.{body}, 'UTF8')), 'hex') || '\"')"
        )
    return Dialects(
        " AND ".join([*sqlite, _covered(of, "bodies")]), " AND ".join([*postgresql, _covered(of, "bodies")])
    )


def _both(condition: str) -> Dialects:
    return Dialects(condition, condition)


RULES = (
    *(AppendOnlyTrigger(of.table, _both(_covered(of, "rows")), _only_bodies_go(of)) for of in (ENVELOPE, INVOCATION)),
    AppendOnlyTrigger(EVENT.table, _both(_covered(EVENT, "rows"))),
    AppendOnlyTrigger("invocations_auditblock"),
    AppendOnlyTrigger(
        "invocations_auditleaves",
        _both(
            f"OLD.block_id >= coalesce((SELECT first_block FROM {_TOMBSTONES} WHERE kind = 'rows' "  # noqa: S608
            "AND last_block >= OLD.block_id ORDER BY last_block LIMIT 1), OLD.block_id + 1)"
        ),
    ),
    AppendOnlyTrigger(_TOMBSTONES),
)
