"""Sums of quotas, counted in the transaction that writes the rows they are about: exact however many processes count.

A batch reads its sums with one statement that also locks them, in one order in every process, and writes them with
another. The window is that of the database's clock on PostgreSQL, one for all machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from invocations.ledger.records import Record
from mcphub.features.quotas.quota import Charge, Spent
from mcphub.features.quotas.windows import QuotaWindow
from sessions_app.kit.database import Dedicated

_TABLE = "invocations_quotacount"
_COLUMNS = {
    "key": "text",
    "quota_id": "bigint",
    "unit": "text",
    "subject": "text",
    "begins": "bigint",
    "ends": "bigint",
    "used": "bigint",
    "estimated": "bigint",
    "unpriced": "bigint",
}
_FROM_JSON = ", ".join(f"json_extract(value, '$[{number}]')" for number in range(len(_COLUMNS)))
_FROM_JSONB = ", ".join(f"(v->>{number})::{kind}" for number, kind in enumerate(_COLUMNS.values()))
_SUMS = ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in ("used", "estimated", "unpriced"))
_ADD = f"ON CONFLICT (key) DO UPDATE SET {_SUMS} RETURNING key, used"
_SQLITE = (
    f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) "  # noqa: S608 - our own names
    f"SELECT {_FROM_JSON} FROM json_each(?1) WHERE true {_ADD}"
)
_POSTGRESQL = (
    f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) "  # noqa: S608 - our own names
    f"SELECT {_FROM_JSONB} FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS e(v, place) ORDER BY place {_ADD}"
)

_Amounts = tuple[int, int, int]
"""Used, of it estimated, requests without a price."""
_NOTHING: _Amounts = (0, 0, 0)


class QuotaSums:
    """The part of the ledger's commit that counts the records' charges."""

    name = "quotas"

    def open(self, database: Dedicated, records: Sequence[Record], now: float) -> Counting:
        return Counting(database, [charge for record in records for charge in (record.brings or {})[self]], now)


QUOTA_SUMS = QuotaSums()


class Counting:
    """The sums that one batch adds to. Made and used within its transaction."""

    def __init__(self, database: Dedicated, charges: Iterable[Charge], now: float) -> None:
        self._database = database
        self._moment = now if database.is_sqlite else _moment(database)
        self._rows: dict[str, tuple[Charge, QuotaWindow]] = {}
        for charge in charges:
            window = charge.window(self._moment)
            self._rows[charge.key(window)] = charge, window
        self._used = self._added(dict.fromkeys(self._rows, _NOTHING))
        self._new: dict[str, _Amounts] = {}

    def admit(self, charges: Sequence[Charge]) -> Spent | None:
        """Add a call's charges, or nothing; return the full sum, of several the one released last."""
        full = [spent for spent in map(self._spent, charges) if spent.is_full]
        if full:
            return max(full, key=lambda spent: spent.window.ends)
        self.add(charges)
        return None

    def add(self, charges: Iterable[Charge]) -> None:
        for charge in charges:
            key = charge.key(charge.window(self._moment))
            self._used[key] += charge.amount
            used, estimated, unpriced = self._new.get(key, _NOTHING)
            self._new[key] = (
                used + charge.amount,
                estimated + (charge.amount if charge.is_estimated else 0),
                unpriced + charge.is_unpriced,
            )

    def said(self, charges: Sequence[Charge]) -> list[Spent]:
        """Return the sums of a record as the batch leaves them."""
        return list(map(self._spent, charges))

    def write(self) -> None:
        self._added({key: amounts for key, amounts in self._new.items() if any(amounts)})

    def _spent(self, charge: Charge) -> Spent:
        window = charge.window(self._moment)
        return Spent(charge, window, self._used[charge.key(window)])

    def _added(self, amounts: dict[str, _Amounts]) -> dict[str, int]:
        if not amounts:
            return {}
        rows: list[tuple[Any, ...]] = []
        for key in sorted(amounts):  # one order in every process: no deadlock
            charge, window = self._rows[key]
            rows.append(
                (key, charge.quota.key, charge.quota.unit, charge.subject, window.begins, window.ends, *amounts[key])
            )
        statement = _SQLITE if self._database.is_sqlite else _POSTGRESQL
        return dict(self._database.raw.execute(statement, (orjson.dumps(rows).decode(),)).fetchall())


def _moment(database: Dedicated) -> float:
    (moment,) = database.raw.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    return float(moment)
