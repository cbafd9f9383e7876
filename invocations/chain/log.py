"""The audit's log in the database: its rows as they are sealed, its blocks, and proofs over them.

Works on a raw connection in autocommit mode (`sqlite3` or `psycopg`), so that the sealing process needs no Django.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from invocations.chain import counting
from invocations.chain.tables import AUDITED, Audited
from invocations.chain.verifier import NOTHING, TABLES, Bad, Frontier, canonical, leaf_hash, loads, node_hash, row_bytes
from invocations.figures.tallies import Key, Tally
from sessions_app.kit.raw_transaction import transaction_on

if TYPE_CHECKING:
    from invocations.parts import FollowingModule
    from sessions_app.protocol.json import Json

_LEAF = struct.Struct(">q32s")
_AT_ONCE, _DIGESTED_AT_ONCE = 100, 1000
"""Rows that PostgreSQL sends at once. Bodies may be a megabyte each; of a digest every row has a few bytes."""
_THROUGH = ("envelopes_through", "invocations_through", "events_through")
_DERIVED = ("number", "header", *_THROUGH, "first_position", "row_count", "sealed_at", "key_id", "tree_root", "nodes")
"""All columns of a block except the signature: copies of the header for SQL and proofs."""

Values = dict[str, Any]


class LostRace(Exception):
    """Another sealer wrote the block of this number first."""


@dataclass(frozen=True)
class Block:
    """One sealed block. `header` is the JSON object whose canonical bytes are the leaf in the log."""

    header: dict[str, Any]
    signature: str
    tree_root: bytes
    key_id: str

    @property
    def number(self) -> int:
        return int(self.header["number"])

    @property
    def leaf(self) -> bytes:
        return leaf_hash(canonical(self.header))

    @staticmethod
    def tables_before(table: str) -> tuple[str, ...]:
        return TABLES[: TABLES.index(table)]

    def span(self, table: str) -> tuple[int, int]:
        after, through, _ = self.header[table]
        return after, through


@dataclass
class Head:
    """The end of the log, which the next block continues."""

    tree: Frontier
    previous: str
    position: int
    through: dict[str, int]
    key_id: str = ""


def pack(leaves: list[tuple[int, bytes]]) -> bytes:
    return b"".join(_LEAF.pack(*leaf) for leaf in leaves)


def unpack(packed: bytes) -> list[tuple[int, bytes]]:
    return list(_LEAF.iter_unpack(packed))


class Log:
    """`connect` gives the raw connection, each time it is needed."""

    def __init__(self, connect: Callable[[], Any], is_sqlite: bool) -> None:
        self._connect = connect
        self.is_sqlite = is_sqlite

    def run(self, statement: str, *values: object) -> Any:
        return self._connect().execute(statement if self.is_sqlite else statement.replace("?", "%s"), values)

    def run_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row, on PostgreSQL without waiting for each."""
        cursor = self._connect().cursor()
        cursor.executemany(statement if self.is_sqlite else statement.replace("?", "%s"), rows)
        cursor.close()

    def transaction(self) -> AbstractContextManager[None]:
        return transaction_on(self._connect(), self.is_sqlite)

    # Rows ------------------------------------------------------------------------------------------------

    def rows(
        self, of: Audited, after: int, through: int, limit: int = -1, *, digests: bool = False
    ) -> Iterator[Values]:
        """Return the rows of a range of ids in order, as a stream, without their columns that are null.

        With `digests` their bodies may come as digests.
        """
        query = (
            f"SELECT {of.select(self.is_sqlite, digests=digests)} FROM {of.table} "  # noqa: S608 - our own names
            "WHERE id > ? AND id <= ? ORDER BY id" + (f" LIMIT {limit:d}" if limit >= 0 else "")
        )
        names, booleans = tuple(of.columns), of.booleans
        at_once = _DIGESTED_AT_ONCE if digests else _AT_ONCE
        for row in self._stream(query, after, through, at_once=at_once):
            values = {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for at in booleans:
                if row[at] in (0, 1):
                    values[names[at]] = bool(row[at])
            yield values

    def _stream(self, query: str, *values: object, at_once: int) -> Iterator[tuple[Any, ...]]:
        raw = self._connect()
        if self.is_sqlite:
            try:
                yield from raw.execute(query, values)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
                yield from self._undecodable(raw, query, values)
            return
        with raw.transaction(), raw.cursor(name="audit") as cursor:
            cursor.itersize = at_once
            yield from cursor.execute(query.replace("?", "%s"), values)

    @staticmethod
    def _undecodable(raw: Any, query: str, values: tuple[object, ...]) -> Iterator[tuple[Any, ...]]:
        """Text that is not UTF-8 is nobody's honest row; read it all the same, so that it can be named."""
        raw.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        try:
            rows = raw.execute(query, values).fetchall()
        finally:
            raw.text_factory = str
        yield from rows

    def highest(self) -> dict[str, int]:
        return {of.name: self.run(f"SELECT max(id) FROM {of.table}").fetchone()[0] or 0 for of in AUDITED}  # noqa: S608

    def writers(self) -> set[str]:
        """Return the transactions that may hold rows of the audit's tables which nobody sees yet.

        SQLite has one writer at a time, so ids are committed in order. On PostgreSQL a row may come to light after
        one of a higher id. Whoever drew an id holds the table's lock from before that until after the commit.
        """
        if self.is_sqlite:
            return set()
        tables = [of.table for of in AUDITED]
        rows = self.run(
            "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted "
            "AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid() "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND relation = ANY (SELECT to_regclass(name)::oid FROM unnest(?::text[]) AS name)",
            tables,
        ).fetchall()
        return {row[0] for row in rows}

    def add_event(self, kind: str, actor: str, actor_label: str, via: str, after: dict[str, Json]) -> None:
        """Append an event within this connection's transaction."""
        now = datetime.now(UTC)
        self.run(
            "INSERT INTO sessions_app_auditevent (happened_at, kind, actor, actor_label, via, subject_model, "
            "subject_id, subject_label, after, reason) VALUES (?, ?, ?, ?, ?, '', '', '', ?, '')",
            self.moment(now),
            kind,
            actor,
            actor_label,
            via,
            canonical(after).decode(),
        )

    def as_stored(self, column: str) -> str:
        """Return the SELECT expression of a column: on SQLite a time as text, which Django's connections would
        otherwise parse.
        """
        return f"CAST({column} AS TEXT)" if self.is_sqlite and column.endswith("_at") else column

    def moment(self, when: datetime) -> Any:
        """Return a time as the database takes it."""
        return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if self.is_sqlite else when

    # Blocks ----------------------------------------------------------------------------------------------

    _COLUMNS = "number, header, signature, tree_root, key_id"

    def blocks(self, first: int = 0, last: int | None = None, at_once: int = 200) -> Iterator[Block]:
        """Return blocks in order, a few hundred at a time."""
        while True:
            rows = self.run(
                f"SELECT {self._COLUMNS} FROM invocations_auditblock WHERE number >= ? ORDER BY number "  # noqa: S608
                f"LIMIT {at_once:d}",
                first,
            ).fetchall()
            for row in rows:
                block = _block(row)
                if last is not None and block.number > last:
                    return
                yield block
            if len(rows) < at_once:
                return
            first = block.number + 1

    def block(self, number: int) -> Block | None:
        row = self.run(f"SELECT {self._COLUMNS} FROM invocations_auditblock WHERE number = ?", number).fetchone()  # noqa: S608
        return _block(row) if row else None

    def block_of(self, table: str, row_id: int, size: int) -> Block | None:
        """Return the block that holds a row, among the first `size`; found by halves, as ids rise with the blocks."""
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            block = self.block(middle)
            if block is None or block.span(table)[1] < row_id:
                low = middle + 1
            else:
                high = middle
        found = self.block(low) if low < size else None
        return found if found is not None and found.span(table)[0] < row_id else None

    def leaves(self, number: int) -> list[tuple[int, bytes]] | None:
        """Return (id, hash) of a block's rows, in the order of their tables; None where retention removed them."""
        row = self.run("SELECT leaves FROM invocations_auditleaves WHERE block_id = ?", number).fetchone()
        try:
            return unpack(bytes(row[0])) if row else None
        except (struct.error, TypeError):
            raise Bad(f"Block {number}: the stored hashes of its rows were changed after it was sealed.") from None

    def derived(self, first: int = 0, at_once: int = 200) -> Iterator[dict[str, object]]:
        """Return the columns beside each block's signature, which `derive` computes from the header."""
        columns = ", ".join(self.as_stored(name) for name in _DERIVED)
        while True:
            rows = self.run(
                f"SELECT {columns} FROM invocations_auditblock WHERE number >= ? ORDER BY number LIMIT {at_once:d}",  # noqa: S608
                first,
            ).fetchall()
            for row in rows:
                yield dict(zip(_DERIVED, row, strict=True))
            if len(rows) < at_once:
                return
            first = rows[-1][0] + 1

    def derive(self, header: Values, made: list[bytes], root: bytes) -> dict[str, object]:
        """`made`: the subtrees that the block completes; `root`: of the tree with it."""
        values = (
            header["number"],
            canonical(header).decode(),
            *(header[table][1] for table in TABLES),
            header["first"],
            header["count"],
            self.moment(datetime.fromisoformat(header["sealed_at"])),
            header["key"],
            root.hex(),
            "".join(node.hex() for node in made),
        )
        return dict(zip(_DERIVED, values, strict=True))

    def size(self) -> int:
        return int(self.run("SELECT coalesce(max(number), -1) + 1 FROM invocations_auditblock").fetchone()[0])

    def head(self, size: int | None = None) -> Head:
        """Return the head, or the former head at `size` blocks.

        Raises Bad where its last block is missing: somebody may take blocks out while others read.
        """
        size = self.size() if size is None else size
        if size == 0:
            return Head(Frontier(), NOTHING, 0, dict.fromkeys(TABLES, 0))
        block = self.block(size - 1)
        if block is None:
            raise Bad(f"Block {size - 1} is missing; the log had {size} blocks.")
        header = block.header
        return Head(
            Frontier(size, self.frontier(size)),
            block.leaf.hex(),
            header["first"] + header["count"],
            {table: header[table][1] for table in TABLES},
            block.key_id,
        )

    def append(
        self,
        header: dict[str, Json],
        leaves: list[tuple[int, bytes]],
        made: list[bytes],
        root: bytes,
        signature: str,
        counted: dict[Key, Tally],
        followed: Sequence[tuple[FollowingModule, Any]] = (),
    ) -> None:
        """Write a block, and its additions to tallies and to what features keep; raise LostRace if its number is taken.

        `followed`: followers with their gains.
        """
        values = {**self.derive(header, made, root), "signature": signature}
        with self.transaction():
            written = self.run(
                f"INSERT INTO invocations_auditblock ({', '.join(values)}) VALUES "  # noqa: S608 - our own names
                f"({', '.join('?' * len(values))}) ON CONFLICT (number) DO NOTHING",
                *values.values(),
            ).rowcount
            if written != 1:
                raise LostRace
            self.run(
                "INSERT INTO invocations_auditleaves (block_id, leaves) VALUES (?, ?)", header["number"], pack(leaves)
            )
            counting.add(self, counted)
            for follower, gains in followed:
                follower.add(self, gains, datetime.fromisoformat(header["sealed_at"]))

    # Proofs (RFC 9162, 2.1.3 and 2.1.4) ----------------------------------------------------------------------

    def node(self, level: int, index: int) -> bytes:
        """Return the root of the complete subtree of 2^level blocks that begins at block index * 2^level."""
        number = ((index + 1) << level) - 1
        row = self.run("SELECT nodes FROM invocations_auditblock WHERE number = ?", number).fetchone()
        try:
            return bytes.fromhex(row[0][level * 64 : level * 64 + 64])
        except (TypeError, ValueError):
            raise Bad(f"Block {number} is missing, or its column nodes was changed.") from None

    def frontier(self, size: int) -> list[bytes]:
        return [self.node(level, index) for level, index in _cover(0, size)]

    def root(self, size: int) -> bytes:
        return Frontier(size, self.frontier(size)).root()

    def _range(self, begin: int, end: int) -> bytes:
        """Return the root over blocks begin..end-1, where begin is a multiple of a power of two that spans them."""
        roots = [self.node(level, index) for level, index in _cover(begin, end)]
        whole = roots[-1]
        for left in reversed(roots[:-1]):
            whole = node_hash(left, whole)
        return whole

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Return the path from block `index` to the root of the first `size` blocks."""
        return _path(index, 0, size, self._range)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Return the proof that the log of `new` blocks continues that of `old`."""
        path: list[bytes] = []
        begin, end, whole = 0, new, True
        while begin + (size := old - begin) != end:
            middle = begin + _split(end - begin)
            if size <= middle - begin:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(begin, middle))
                begin, whole = middle, False
        return ([] if whole else [self._range(begin, end)]) + path[::-1] if old < new else []


def inclusion_in(leaves: list[bytes], index: int) -> list[bytes]:
    """Return the path from a row to the root of its block."""
    from invocations.chain.verifier import merkle_root

    return _path(index, 0, len(leaves), lambda begin, end: merkle_root(leaves[begin:end]))


def row_leaf(table: str, values: Values) -> bytes:
    return leaf_hash(row_bytes(table, values))


def _path(index: int, begin: int, end: int, root: Callable[[int, int], bytes]) -> list[bytes]:
    if end - begin == 1:
        return []
    middle = begin + _split(end - begin)
    if index < middle:
        return [*_path(index, begin, middle, root), root(middle, end)]
    return [*_path(index, middle, end, root), root(begin, middle)]


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _cover(begin: int, end: int) -> list[tuple[int, int]]:
    """Return the complete subtrees (level, index) that make up begin..end-1."""
    found = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        found.append((level, begin >> level))
        begin += 1 << level
    return found


def _block(row: tuple[Any, ...]) -> Block:
    number, header, signature, tree_root, key_id = row
    try:
        block = Block(loads(header), signature, bytes.fromhex(tree_root), key_id)
        if type(block.header["number"]) is not int:
            raise TypeError
    except (ValueError, TypeError, KeyError):
        raise Bad(f"Block {number} was changed after it was sealed: its header or root cannot be read.") from None
    return block
