"""A batch as one statement, for PostgreSQL: one round trip instead of one for each thing that must be true.

Usual records are appended; others (an ended session, a used key, an existing ID) are skipped and reported, for the
caller to process step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from invocations.ledger.records import Intent, Outcome
from invocations.ledger.statements import ENVELOPE, INVOCATION, KEY, LIVE
from sessions_app.kit.database import Dedicated

_GATES = 4
"""Items in front of a row: session that must be live, then scope, key and fingerprint; each may be null."""
_KEY = f"jsonb_build_array(v->1, v->2, v->3, v->{_GATES}, $4::timestamptz)"
_MAY = "(v->>0 IS NULL OR v->>0 IN (SELECT session_id FROM alive))"
_FIRST = f"(v->>2 IS NULL OR v->>{_GATES} IN (SELECT invocation_id FROM claimed))"  # noqa: S608 - our own names

_PLAIN = f"WITH e AS ({ENVELOPE.postgresql}) {INVOCATION.insert_from('jsonb_array_elements($2::jsonb) AS v')}"

_GATED = f"""
WITH alive AS MATERIALIZED (
  SELECT session_id FROM sessions_app_mcpsession
  WHERE {LIVE} AND (expires_at IS NULL OR expires_at > $4::timestamptz) AND session_id = ANY($3::text[])
), touched AS (
  UPDATE sessions_app_mcpsession SET last_activity_at = greatest(last_activity_at, $4::timestamptz),
    expires_at = $6::timestamptz
  WHERE session_id IN (SELECT session_id FROM sessions_app_mcpsession WHERE session_id = ANY($5::text[])
    AND expires_at IS NOT NULL AND expires_at > $4::timestamptz AND {LIVE} FOR UPDATE SKIP LOCKED)
), e AS MATERIALIZED (
  SELECT v FROM jsonb_array_elements($1::jsonb) AS v WHERE {_MAY}
), o AS MATERIALIZED (
  SELECT v FROM jsonb_array_elements($2::jsonb) AS v WHERE {_MAY}
), claims AS (
  SELECT {_KEY} AS v FROM (SELECT v FROM e UNION ALL SELECT v FROM o) AS keyed WHERE v->>2 IS NOT NULL
  ORDER BY v->>1, v->>2
), claimed AS (
  {KEY.insert_from("claims")} RETURNING invocation_id
), intended AS (
  {ENVELOPE.insert_from(f"e WHERE {_FIRST}", _GATES)} RETURNING invocation_id
), done AS (
  {INVOCATION.insert_from(f"o WHERE {_FIRST}", _GATES)} RETURNING invocation_id
)
SELECT ARRAY(SELECT session_id FROM alive),
  ARRAY(SELECT invocation_id FROM intended UNION ALL SELECT invocation_id FROM done)
"""  # noqa: S608 - our own names


def append(database: Dedicated, intents: Sequence[Intent], outcomes: Sequence[Outcome]) -> bool:
    """Append records that need no session and no key; False where some outcome was there already."""
    values = [orjson.dumps([record.row for record in records]).decode() for records in (intents, outcomes)]
    return bool(database.raw.execute(_PLAIN, values).rowcount == len(outcomes))


def append_gated(
    database: Dedicated,
    intents: Sequence[Intent],
    outcomes: Sequence[Outcome],
    sessions: Sequence[str],
    stale: Sequence[str],
    now: float,
    expires: float,
) -> tuple[set[str], set[str]]:
    """Return which of the sessions live, and the ids of the records that were appended.

    A record is appended if its session is live and its key was not used before.
    """
    alive, appended = database.raw.execute(
        _GATED,
        (
            _packed(intents),
            _packed(outcomes),
            list(sessions),
            database.timestamp(now),
            list(stale),
            database.timestamp(expires),
        ),
    ).fetchone()
    return set(alive), set(appended)


def _packed(records: Sequence[Intent | Outcome]) -> str:
    rows: list[Any] = [(record.session_id, *(record.key or (None, None, None)), *record.row) for record in records]
    return orjson.dumps(rows).decode()
