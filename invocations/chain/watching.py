"""Notices that the log was cut or rewritten, by whoever has the hub's own rights. Needs no Django.

Two memories are compared with the database: a `Watch` is that of a running process, `Outside` that of all processes,
in a file which a rolled-back database does not roll back. They write their findings to a `Verdict` in the database.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from invocations.chain.log import Block, Head, Log
from invocations.chain.verifier import TABLES, Bad, Checkpoint, Frontier, PublicKey, check_signature

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

_AGAIN = 200
"""Of the checkpoints that were compared, so many are compared at each look; of older ones the signature is not read."""
_MOST_LINES = 10
"""Lines of a checkpoint; longer texts are none."""


class Rewritten(Exception):
    """The log is not the one that it was. The message is the evidence."""


class Watch:
    """Where the log ended when this process saw it last. Whoever seals asks here first.

    With `publics`, the public keys on file, blocks that others sealed must bear a signature. A note of an unknown key
    is left to the sealer, which can tell a machine with a folder of its own from a rewritten log.
    """

    def __init__(
        self, log: Log, known: Head | None = None, publics: Callable[[], Iterable[PublicKey]] | None = None
    ) -> None:
        self._log = log
        self._known = known
        self._publics = publics

    @property
    def known(self) -> Head | None:
        return self._known

    def head(self) -> Head:
        """Return the head of the log, which continues the known one; raise Rewritten otherwise."""
        size = self._log.size()
        try:
            if self._known is None:
                self._known = self._first(size)
                return self._known
            known = self._known
            self._compare(known, size)
            if size > known.tree.size:
                tree = Frontier(known.tree.size, known.tree.roots)
                keys = self._keys()
                for block in self._log.blocks(known.tree.size, size - 1):
                    known = _follow(known, tree, block)
                    self._check(block, keys, tree)
                    self._known = Head(
                        Frontier(tree.size, tree.roots), known.previous, known.position, known.through, known.key_id
                    )
        except Bad as bad:
            raise Rewritten(str(bad)) from bad
        return self._known

    def saw(self, head: Head) -> None:
        """Remember this process's own blocks."""
        self._known = head

    def _first(self, size: int) -> Head:
        head = self._log.head(size)
        last = self._log.block(size - 1) if size else None
        if last is not None and last.tree_root != head.tree.root():
            raise Rewritten(f"The root of the log of {size} blocks is not that of its blocks.")
        if last is not None:
            self._check(last, self._keys(), head.tree)
        return head

    def _keys(self) -> dict[str, PublicKey]:
        return {key.key_id: key for key in self._publics()} if self._publics is not None else {}

    @staticmethod
    def _check(block: Block, keys: dict[str, PublicKey], tree: Frontier) -> None:
        if block.header.get("key") in keys:
            check_signature(block.header, block.signature, keys, tree)

    def _compare(self, known: Head, size: int) -> None:
        held = known.tree.size
        if size < held:
            raise Rewritten(f"The log had {held} blocks and has {size}: it was cut, or an old copy was restored.")
        last = self._log.block(held - 1) if held else None
        if held and (last is None or last.leaf.hex() != known.previous or last.tree_root != known.tree.root()):
            raise Rewritten(f"The log was rewritten at or before block {held - 1}.")


def _follow(known: Head, tree: Frontier, block: Block) -> Head:
    header = block.header
    try:
        continues = (
            (header["number"], header["previous"], header["first"]) == (tree.size, known.previous, known.position)
        ) and all(header[table][0] == known.through[table] for table in TABLES)
        through = {table: int(header[table][1]) for table in TABLES}
        position = known.position + int(header["count"])
    except (KeyError, TypeError, ValueError, IndexError):
        continues = False
    if not continues:
        raise Rewritten(f"Block {tree.size} does not continue the log of {tree.size} blocks.")
    tree.append(block.leaf)
    if block.tree_root != tree.root():
        raise Rewritten(f"The root of block {block.number} is not that of the blocks through it.")
    return Head(tree, block.leaf.hex(), position, through, block.key_id)


def words_of(head: Head) -> dict[str, Json]:
    """Return a head as JSON carries it to another process."""
    return {
        "size": head.tree.size,
        "roots": [root.hex() for root in head.tree.roots],
        "previous": head.previous,
        "position": head.position,
        "through": head.through,
        "key_id": head.key_id,
    }


def head_of(words: dict[str, Json]) -> Head:
    tree = Frontier(words["size"], [bytes.fromhex(root) for root in words["roots"]])
    return Head(tree, words["previous"], words["position"], words["through"], words["key_id"])


class Outside:
    """The checkpoints that left the database. The first look reads the whole file, later ones the additions."""

    def __init__(self, file: Path, publics: Callable[[], Iterable[PublicKey]]) -> None:
        self.file = file
        self._publics = publics
        self.count = 0
        self._offset = 0
        self._last = b""
        self._recent: deque[Checkpoint] = deque(maxlen=_AGAIN)

    def compare(self, log: Log) -> int:
        """Return how many checkpoints the file has; raise Rewritten where one disagrees with the log.

        An entry that was cut off while it was written counts as none.
        """
        try:
            agreed = list(self._recent)
            _compare(log, agreed)
            try:
                with self.file.open("rb") as file:
                    self._read(file, log)
            except FileNotFoundError:
                if self._offset:
                    raise Rewritten(f"The checkpoints {self.file} are gone while the hub runs.") from None
        except Bad as bad:
            raise Rewritten(str(bad)) from bad
        return self.count

    def _read(self, file: BinaryIO, log: Log) -> None:
        file.seek(max(0, self._offset - len(self._last)))
        if file.read(len(self._last)) != self._last:
            raise Rewritten(f"The checkpoints {self.file} were changed or cut while the hub runs.")
        offset, last, lines, waiting = self._offset, self._last, list[bytes](), list[Checkpoint]()
        found = 0
        at = offset
        for line in file:
            at += len(line)
            lines.append(line)
            if line.startswith("\u2014 ".encode()) and line.endswith(b"\n"):
                offset, last = at, line
                note = _parsed(lines)
                lines = []
                if note is not None:
                    found += 1
                    waiting.append(note)
            elif len(lines) > _MOST_LINES:
                del lines[0]
            if len(waiting) == _AGAIN:
                _compare(log, waiting)
                self._recent.extend(waiting)
                waiting = []
        _compare(log, waiting)
        self._recent.extend(waiting)
        self._check_signatures(list(self._recent)[-found:] if found else [])
        self._offset, self._last = offset, last
        self.count += found

    def _check_signatures(self, checkpoints: list[Checkpoint]) -> None:
        keys = {key.key_id: key for key in self._publics()} if checkpoints else {}
        for each in checkpoints:
            key = keys.get(each.key_id)
            if key is None or key.name != each.origin or not key.has_signed(each.signature, each.text.encode()):
                raise Rewritten(
                    f"The checkpoint of {each.size} blocks in {self.file} is not signed by a key of this log: somebody "
                    "else wrote it, or changed it."
                )


def _parsed(lines: list[bytes]) -> Checkpoint | None:
    """Read the note at the end of these lines; a truncated one may precede it."""
    for first in range(len(lines)):
        try:
            return Checkpoint.parse(b"".join(lines[first:]).decode(errors="replace").strip("\n") + "\n")
        except Bad:
            continue
    return None


def _compare(log: Log, checkpoints: list[Checkpoint]) -> None:
    if not checkpoints:
        return
    sizes = sorted({each.size for each in checkpoints})
    rows = log.run(
        f"SELECT number + 1, tree_root FROM invocations_auditblock WHERE number IN ({', '.join('?' * len(sizes))})",  # noqa: S608
        *(size - 1 for size in sizes),
    ).fetchall()
    roots = dict(rows)
    for each in checkpoints:
        if each.size not in roots:
            raise Rewritten(
                f"A checkpoint outside the database tells of {each.size} blocks, which the log does not have: it was "
                "cut, or an old copy was restored."
            )
        if roots[each.size] != each.root.hex():
            raise Rewritten(
                f"The checkpoint of {each.size} blocks outside the database does not agree with the log: it was "
                f"rewritten at or before block {each.size - 1}."
            )


# The verdict -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChainVerdict:
    """The result of the last verification; an empty text is no problem."""

    verified_at: datetime
    size: int
    problem: str
    undelivered: str = ""
    """Which places checkpoints do not arrive at, and why."""

    def alarm(self, every_seconds: float, since: datetime) -> str:
        """Return the problem that a person must investigate, or an empty text.

        `every_seconds`: how often a hub verifies; `since`: when one began to.
        """
        if self.problem or self.undelivered:
            return " ".join(filter(None, [self.problem, self.undelivered]))
        old = (datetime.now(UTC) - max(since, self.verified_at)).total_seconds()
        if every_seconds and old > 3 * every_seconds + 60:
            return f"The audit was not verified for {old / 60:.0f} minutes, and is due every {every_seconds / 60:.0f}."
        return ""


def verdict(log: Log) -> ChainVerdict | None:
    row = log.run(
        f"SELECT {log.as_stored('verified_at')}, size, problem, undelivered "  # noqa: S608
        "FROM invocations_auditverdict WHERE id = 1"
    ).fetchone()
    if row is None:
        return None
    moment = datetime.fromisoformat(row[0]) if isinstance(row[0], str) else row[0]
    return ChainVerdict(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment, int(row[1]), row[2], row[3])


KEPT_VERIFICATIONS = 10_000
"""Of those that found nothing: five weeks of one every five minutes. Bad ones stay."""


def record(log: Log, way: str, size: int, blocks: int, seconds: float, problem: str = "") -> None:
    """Append a verification to those that are kept. `blocks`: so many were read with their rows.

    A result equal to the last one is not stored: it would repeat every few minutes.
    """
    last = log.run("SELECT way, problem FROM invocations_auditverification ORDER BY id DESC LIMIT 1").fetchone()
    if problem and last is not None and tuple(last) == (way, problem[:1000]):
        return
    newest = log.run(
        "INSERT INTO invocations_auditverification (verified_at, way, size, blocks, milliseconds, problem) "
        "VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        log.moment(datetime.now(UTC)),
        way,
        size,
        blocks,
        round(seconds * 1000),
        problem[:1000],
    ).fetchone()[0]
    log.run("DELETE FROM invocations_auditverification WHERE id <= ? AND problem = ''", newest - KEPT_VERIFICATIONS)


def keep(log: Log, size: int, problem: str = "") -> None:
    """Write the verdict. One that is bad stays until a person lifts the alarm: a log that was rewritten agrees."""
    log.run(
        "INSERT INTO invocations_auditverdict (id, verified_at, size, problem, undelivered) VALUES (1, ?, ?, ?, '') "
        "ON CONFLICT (id) DO UPDATE SET verified_at = excluded.verified_at, size = excluded.size, "
        "problem = excluded.problem WHERE excluded.problem <> '' OR invocations_auditverdict.problem = ''",
        log.moment(datetime.now(UTC)),
        size,
        problem[:1000],
    )


def lift(log: Log) -> None:
    """Take the problem out of the verdict: a person has looked into it."""
    log.run("UPDATE invocations_auditverdict SET problem = '' WHERE id = 1")


def keep_undelivered(log: Log, problem: str) -> bool:
    """Write beside the verdict which places checkpoints do not arrive at; False where there is no verdict yet."""
    return bool(log.run("UPDATE invocations_auditverdict SET undelivered = ? WHERE id = 1", problem[:2000]).rowcount)


def append(file: Path, notes: Iterable[str]) -> None:
    """Append signed notes to the file outside, and have them on disk."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("a", encoding="utf-8") as out:
        for each in notes:
            out.write(f"{each}\n")
        out.flush()
        os.fsync(out.fileno())
