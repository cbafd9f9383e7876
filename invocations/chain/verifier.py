"""The audit's verifier. Stand-alone: this one file, Python 3.11 and the package `cryptography`; nothing of the hub.

    python verifier.py EXPORT.jsonl --key PUBLIC_KEYS [--checkpoint CHECKPOINTS]
    python verifier.py --proof PROOF.json --key PUBLIC_KEYS

It reads an export as a stream and names the first row that is not as it was sealed; or it checks that the rows of a
proof, as the hub's REST gives it for one call or event, are in the log that its checkpoint signs. The hub feeds the
same class from its database. How it works: rows become leaves; the leaves of a block form a Merkle tree (RFC 9162);
the headers of the blocks are leaves of another such tree, whose root the hub signs as a checkpoint (C2SP
tlog-checkpoint).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import bisect
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

try:  # three times as fast, and the same bytes; not needed
    import orjson

    loads: Callable[[Any], Any] = orjson.loads

    def _dumps(value: object) -> bytes:
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # text that is not UTF-8, or a huge integer: nothing that the hub writes
            return _dumps_slowly(value)
except ImportError:  # pragma: no cover - tried in an environment of its own
    loads = json.loads

    def _dumps(value: object) -> bytes:
        return _dumps_slowly(value)


TABLES = ("envelope", "invocation", "event")
"""In the order in which their rows stand in a block."""
BODIES = {"envelope": ("params",), "invocation": ("arguments", "result", "error"), "event": ()}
"""Columns that a row's hash covers by their SHA-256 alone, so that they can go while the hash still verifies."""
NOTHING = "0" * 64
"""The first block's predecessor."""
KEY_ROTATED = "audit.key_rotated"
REMOVALS = ("audit.rows_removed", "audit.bodies_removed")
"""The kind of event by which the old key introduces the next one."""


class Bad(Exception):
    """Evidence that something changed after sealing. The text names the row, or the block where no row can be named."""


# Hashes ------------------------------------------------------------------------------------------------


def canonical(value: object) -> bytes:
    """JSON in UTF-8: names sorted by code point, no blanks, nothing escaped that need not be."""
    return _dumps(value)


def _dumps_slowly(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def row_bytes(table: str, values: dict[str, Any]) -> bytes:
    """Return the hashed bytes of a row: its columns without nulls, bodies by digest."""
    shown = dict(values)
    for name in BODIES[table]:
        body = shown.get(name)
        if body is not None:
            shown[name] = erased_digest(body) or (body if body[:7] == "sha256:" else body_digest(body))
    shown["table"] = table
    return canonical(shown)


def body_digest(body: str) -> str:
    return "sha256:" + hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def erased_digest(body: str) -> str | None:
    """Return the digest that stands where a body was erased (a JSON string); bodies are objects."""
    return body[1:-1] if body[:8] == '"sha256:' else None


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    """Return the root over leaf hashes (RFC 9162, 2.1.1)."""
    if not leaves:
        return hashlib.sha256().digest()
    level = leaves
    sha256 = hashlib.sha256
    while len(level) > 1:
        paired = [sha256(b"\x01" + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)]
        level = [*paired, level[-1]] if len(level) % 2 else paired
    return level[0]


class Frontier:
    """A growing Merkle tree by the roots of its complete subtrees, the largest first."""

    def __init__(self, size: int = 0, roots: Iterable[bytes] = ()) -> None:
        self.size, self.roots = size, list(roots)
        if len(self.roots) != size.bit_count():
            raise Bad(f"A tree of {size} leaves has {size.bit_count()} complete subtrees, not {len(self.roots)}.")

    def append(self, leaf: bytes) -> list[bytes]:
        """Add a leaf; give the roots of the subtrees that it completes, the leaf itself first."""
        made = [leaf]
        size = self.size
        while size & 1:
            made.append(node_hash(self.roots.pop(), made[-1]))
            size >>= 1
        self.roots.append(made[-1])
        self.size += 1
        return made

    def root(self) -> bytes:
        if not self.roots:
            return hashlib.sha256().digest()
        whole = self.roots[-1]
        for left in reversed(self.roots[:-1]):
            whole = node_hash(left, whole)
        return whole


def root_from_inclusion(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes:
    """Return the root that an inclusion proof leads to (RFC 9162, 2.1.3.2); raise Bad where it cannot be one."""
    if not 0 <= index < size:
        raise Bad(f"Leaf {index} is not in a tree of {size}.")
    at, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise Bad("The proof is too long.")
        if at & 1 or at == last:
            found = node_hash(sibling, found)
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            found = node_hash(found, sibling)
        at >>= 1
        last >>= 1
    if last:
        raise Bad("The proof is too short.")
    return found


def check_consistency(old: int, old_root: bytes, new: int, new_root: bytes, path: list[bytes]) -> None:
    """Raise Bad unless the tree of `new` leaves continues that of `old` (RFC 9162, 2.1.4.2)."""
    if not 0 < old <= new:
        raise Bad(f"A tree of {new} leaves cannot continue one of {old}.")
    if old == new:
        if path or old_root != new_root:
            raise Bad(f"Two different trees of {old} leaves.")
        return
    proof = list(path)
    if old & (old - 1) == 0:
        proof.insert(0, old_root)
    if not proof:
        raise Bad("The proof is too short.")
    at, last = old - 1, new - 1
    while at & 1:
        at >>= 1
        last >>= 1
    first = second = proof[0]
    for sibling in proof[1:]:
        if last == 0:
            raise Bad("The proof is too long.")
        if at & 1 or at == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            second = node_hash(second, sibling)
        at >>= 1
        last >>= 1
    if last or first != old_root or second != new_root:
        raise Bad(f"The log of {new} blocks does not continue the log of {old} blocks.")


# Keys and checkpoints (C2SP signed-note, tlog-checkpoint) ----------------------------------------------


@dataclass(frozen=True)
class PublicKey:
    """A verifier key: `<name>+<key id>+<base64 of 0x01 and the Ed25519 key>`."""

    name: str
    key_id: str
    raw: bytes

    @classmethod
    def parse(cls, line: str) -> PublicKey:
        try:
            name, key_id, data = line.strip().split("+", 2)
            packed = from_base64(data)
        except (ValueError, binascii.Error):
            raise Bad(f"Not a public key: {line.strip()[:80]!r}.") from None
        if packed[:1] != b"\x01" or len(packed) != 33 or key_id != make_key_id(name, packed[1:]):
            raise Bad(f"Not an Ed25519 public key: {line.strip()[:80]!r}.")
        return cls(name, key_id, packed[1:])

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id}+{base64.b64encode(bytes([1]) + self.raw).decode()}"

    def has_signed(self, signature: bytes, text: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, text)
        except InvalidSignature:
            return False
        return True


def from_base64(text: str) -> bytes:
    """Decode base64 in its one due spelling; raise ValueError for all others, which would hide a changed byte."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the due spelling of base64")
    return raw


def from_hex(text: str) -> bytes:
    """Decode hexadecimal digits in their one due spelling; raise ValueError for all others."""
    raw = bytes.fromhex(text)
    if raw.hex() != text:
        raise ValueError("not the due spelling of hexadecimal digits")
    return raw


def make_key_id(name: str, raw: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\n\x01" + raw).digest()[:4].hex()


def checkpoint_text(origin: str, size: int, root: bytes) -> str:
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"


@dataclass(frozen=True)
class Checkpoint:
    """A signed statement of the log's size in blocks and its root."""

    origin: str
    size: int
    root: bytes
    key_id: str
    signature: bytes

    @property
    def text(self) -> str:
        return checkpoint_text(self.origin, self.size, self.root)

    @classmethod
    def parse(cls, note: str) -> Checkpoint:
        try:
            text, _, signatures = note.strip("\n").partition("\n\n")
            origin, size, root = text.split("\n")[:3]
            dash, name, packed = signatures.split("\n")[0].split(" ")
            data = from_base64(packed)
            found = cls(origin, int(size), from_base64(root), data[:4].hex(), data[4:])
            if dash != "\u2014" or name != origin or found.text.strip("\n") != text or len(found.root) != 32:
                raise ValueError
        except (ValueError, binascii.Error):
            raise Bad(f"Not a checkpoint: {note[:80]!r}.") from None
        return found


def read_checkpoints(text: str) -> list[Checkpoint]:
    """Read notes that stand one after another, each closed by its signature."""
    found, lines = [], []
    for line in text.splitlines():
        lines.append(line)
        if line.startswith("\u2014 "):
            found.append(Checkpoint.parse("\n".join(lines).strip("\n") + "\n"))
            lines = []
    if "".join(lines).strip():
        raise Bad("The last checkpoint is cut off.")
    return found


def read_keys(text: str) -> list[PublicKey]:
    return [PublicKey.parse(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


# The log -----------------------------------------------------------------------------------------------


class Spans:
    """Ranges of blocks, both ends included."""

    def __init__(self) -> None:
        self._given: list[tuple[int, int]] = []
        self._merged: list[tuple[int, int]] | None = None

    def add(self, first: int, last: int) -> None:
        self._given.append((first, last))
        self._merged = None

    def merged(self) -> list[tuple[int, int]]:
        if self._merged is None:
            self._merged = []
            for first, last in sorted(self._given):
                if self._merged and first <= self._merged[-1][1] + 1:
                    first, last = self._merged[-1][0], max(last, self._merged.pop()[1])
                self._merged.append((first, last))
        return self._merged

    def cover(self, number: int) -> bool:
        at = bisect.bisect_right(self.merged(), (number, sys.maxsize)) - 1
        return at >= 0 and self.merged()[at][1] >= number


@dataclass
class Summary:
    blocks: int = 0
    rows: int = 0
    omitted: int = 0
    """Rows that a filter left out; their hashes stand in for them, or their whole block is left out."""
    removed: int = 0
    """Rows that retention removed, under signed tombstones."""
    erased: int = 0
    """Rows with bodies erased by retention."""
    keys: list[str] = field(default_factory=list)
    last: str = ""
    """When the last block was sealed."""


class Verifier:
    """Takes the records of an export one after another; raises Bad at the first that is not as it was sealed.

    `keys` are trusted; further ones become so when a trusted one introduces them. `checkpoints` are those that
    were kept outside the database: the log must contain each of them.
    """

    def __init__(
        self, keys: Iterable[PublicKey], checkpoints: Iterable[Checkpoint] = (), *, digested: bool = False
    ) -> None:
        """`digested`: the caller read the bodies and hashed them already (`sha256:…`, which is not JSON). Its rows may
        be what the hash covers, as text (`covered`), with whether a body was erased, instead of values.
        """
        self._digested = digested
        self.summary = Summary()
        self._keys = {key.key_id: key for key in keys}
        if not self._keys:
            raise Bad("There is no public key to verify with.")
        self._checkpoints: dict[int, list[Checkpoint]] = {}
        for checkpoint in checkpoints:
            self._checkpoints.setdefault(checkpoint.size, []).append(checkpoint)
        self._origin = ""
        self._tree = Frontier()
        self._previous = NOTHING
        self._position = 0
        self._through: dict[str, int] = {}
        self._header: dict[str, Any] | None = None
        self._leaves: list[bytes] = []
        self._due: list[tuple[str, int]] = []
        self._last_id = 0
        self._state = ""
        self._introduced: list[str] = []
        self._tombstones: list[tuple[dict[str, Any], str]] = []
        self._told: list[dict[str, Any]] = []
        """The tombstones recorded in sealed events."""
        self._gone = {"rows": Spans(), "bodies": Spans()}
        self._is_bodiless = False
        self._ended = False

    def feed(self, record: dict[str, Any]) -> None:
        try:
            if "row" in record:
                self._row(record)
            elif "block" in record:
                self._close()
                self._open(record)
            elif "tombstone" in record:
                tombstone = record["tombstone"]
                self._follow(tombstone)
                self._tombstones.append((tombstone, record["signature"]))
                self._gone[tombstone["kind"]].add(tombstone["first_block"], tombstone["last_block"])
            elif "export" in record:
                self._begin(record)
            elif "end" in record:
                self._close()
                if record["end"] != {"blocks": self.summary.blocks, "rows": self.summary.rows}:
                    raise Bad(f"The export says that it holds {record['end']}, and holds {self._so_far()}.")
                self._ended = True
            else:
                raise Bad(f"An unknown record after {self._so_far()}.")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Bad(f"A record without its due form, after {self._so_far()}: {error!r}.") from None

    def finish(self) -> Summary:
        """Mark the end of the stream; check properties of the whole."""
        if not self._ended:
            raise Bad(f"The export is cut off after {self._so_far()}.")
        for tombstone, signature in self._tombstones:
            key = self._keys.get(str(tombstone.get("key")))
            try:
                signed = from_base64(signature)
            except (TypeError, ValueError):
                signed = b""
            if key is None or not key.has_signed(signed, tombstone_bytes(tombstone)):
                raise Bad(f"The tombstone of blocks {_span(tombstone)} is not signed by a key that is trusted.")
        there = {tombstone_hash(tombstone) for tombstone, _ in self._tombstones}
        for tombstone in self._told:
            if tombstone_hash(tombstone) not in there:
                raise Bad(f"The tombstone of blocks {_span(tombstone)}, of which a sealed event tells, is missing.")
        missed = [size for size in self._checkpoints if size > self._tree.size]
        if missed:
            raise Bad(
                f"The log is truncated: it ends after {self._tree.size} blocks, and a checkpoint tells of "
                f"{max(missed)}."
            )
        self.summary.keys = sorted(self._keys)
        return self.summary

    def _follow(self, tombstone: dict[str, Any]) -> None:
        """Raise Bad where a tombstone does not follow the one before it. Its event may have been removed later."""
        due = tombstone_hash(self._tombstones[-1][0]) if self._tombstones else NOTHING
        if tombstone.get("previous", due) != due:
            raise Bad(f"The tombstone before that of blocks {_span(tombstone)} is missing, or was moved.")

    def _so_far(self) -> str:
        return f"{self.summary.blocks} blocks and {self.summary.rows} rows"

    def _begin(self, record: dict[str, Any]) -> None:
        if record["export"] != 1 or self._origin:
            raise Bad("Not an export of the kind that this verifier knows.")
        self._origin = record["origin"]
        self._is_bodiless = record.get("bodies") == "left out"
        self._tree = Frontier(record["first_block"], [from_hex(root) for root in record["frontier"]])
        self._previous, self._position = record["previous"], record["first_position"]
        self._through = {table: record["through"][table] for table in TABLES}
        if not record["first_block"] and (self._previous, self._position, *self._through.values()) != (
            NOTHING,
            0,
            0,
            0,
            0,
        ):
            raise Bad("The log does not begin at its begin.")
        if record["checkpoint"]:
            checkpoint = Checkpoint.parse(record["checkpoint"])
            self._checkpoints.setdefault(checkpoint.size, []).append(checkpoint)
        self._check_checkpoints()

    def _open(self, record: dict[str, Any]) -> None:
        header = record["block"]
        number = self._tree.size
        if header["number"] != number:
            raise Bad(f"Block {number} is missing: block {header['number']} stands in its place.")
        if header["previous"] != self._previous:
            raise Bad(f"Block {number} does not follow the block before it.")
        counts = {table: header[table][2] for table in TABLES}
        if header["first"] != self._position or header["count"] != sum(counts.values()):
            raise Bad(f"Block {number} does not continue the numbers of the rows before it.")
        for table in TABLES:
            if header[table][0] != self._through[table] or header[table][1] < header[table][0]:
                raise Bad(f"Block {number} leaves a gap among the rows of table {table}.")
            self._through[table] = header[table][1]
        leaf = leaf_hash(canonical(header))
        self._tree.append(leaf)
        self._previous = leaf.hex()
        check_signature(header, record["signature"], self._keys, self._tree, self._origin)
        self._header = header
        self._state, self._leaves, self._introduced, self._last_id = record["rows"], [], [], 0
        self._due = [(table, counts[table]) for table in TABLES if counts[table]]
        if self._state not in ("here", "omitted", "removed"):
            raise Bad(f"Block {number} is neither here nor omitted nor removed.")
        if self._state == "removed" and not self._gone["rows"].cover(number):
            raise Bad(f"The rows of block {number} are gone, and no tombstone says so.")

    def _row(self, record: dict[str, Any]) -> None:
        table, row_id = record["row"], record["id"]
        header = self._header
        if header is None or self._state != "here":
            raise Bad(f"{table} {row_id} stands in no block.")
        number = header["number"]
        where = f"{table} {row_id} (position {record['position']}, block {number})"
        self._check_place(record, header, where)
        stored = from_hex(record["hash"])
        if record.get("values") is None and not (self._digested and "covered" in record):
            self.summary.omitted += 1
        else:
            values, is_same, is_erased = self._compare(record, stored, where)
            if not is_same:
                raise Bad(f"{where} was changed after it was sealed.")
            if is_erased:
                self.summary.erased += 1
                if not self._is_bodiless and not self._gone["bodies"].cover(number):
                    raise Bad(f"The bodies of {where} are gone, and no tombstone says so.")
            if table == "event" and values["kind"] == KEY_ROTATED:
                self._introduced.append(json.loads(values["after"])["key"])
            if table == "event" and values["kind"] in REMOVALS:
                self._told.append(json.loads(values["after"]))
            self.summary.rows += 1
        self._leaves.append(stored)
        self._position += 1
        self._last_id = row_id
        if self._due[0][1] == 1:
            self._due.pop(0)
            self._last_id = 0
        else:
            self._due[0] = (table, self._due[0][1] - 1)

    def _check_place(self, record: dict[str, Any], header: dict[str, Any], where: str) -> None:
        """Raise Bad unless the row is the one that is due."""
        table, position = record["row"], self._position
        problem = record.get("problem")
        if problem:
            raise Bad(f"{where} {problem}.")
        if not self._due or record["position"] > position:
            raise Bad(f"Position {position} in block {header['number']} is missing: {where} stands in its place.")
        if record["position"] < position:
            raise Bad(f"{where} stands where position {position} is due: it was inserted, repeated or moved.")
        if table != self._due[0][0] or not max(self._last_id, header[table][0]) < record["id"] <= header[table][1]:
            raise Bad(f"{where} is out of order: it was inserted or moved.")

    def _compare(self, record: dict[str, Any], stored: bytes, where: str) -> tuple[dict[str, Any], bool, bool]:
        """Return the values of a row (of a text those of an event alone), whether they are those that were sealed, and
        whether a body was erased.
        """
        table = record["row"]
        if self._digested and "covered" in record:
            covered = record["covered"].encode()
            return loads(covered) if table == "event" else {}, leaf_hash(covered) == stored, record["erased"]
        values = record["values"]
        is_same = values["id"] == record["id"] and None not in values.values()
        is_same = is_same and leaf_hash(row_bytes(table, values)) == stored
        bodies = [values[body] for body in BODIES[table] if values.get(body)]
        if is_same and not self._digested and any(body[:7] == "sha256:" for body in bodies):
            raise Bad(f"{where} holds a digest where a body is due.")
        return values, is_same, any(erased_digest(body) for body in bodies)

    def _close(self) -> None:
        header = self._header
        if header is None:
            return
        number = header["number"]
        if self._state == "here":
            if self._due:
                raise Bad(f"Position {self._position} in block {number} is missing: {self._due[0][0]}, deleted.")
            if merkle_root(self._leaves).hex() != header["root"]:
                raise Bad(f"Block {number}: its rows and their hashes are not those that were sealed.")
        else:
            self._position += header["count"]
            name = "removed" if self._state == "removed" else "omitted"
            setattr(self.summary, name, getattr(self.summary, name) + header["count"])
        for line in self._introduced:
            introduced = PublicKey.parse(line)
            self._keys[introduced.key_id] = introduced
        self.summary.blocks += 1
        self.summary.last = header["sealed_at"]
        self._header = None
        self._check_checkpoints()

    def _check_checkpoints(self) -> None:
        for checkpoint in self._checkpoints.get(self._tree.size, ()):
            if checkpoint.origin != self._origin:
                raise Bad(f"The checkpoint of {checkpoint.size} blocks is of another log: {checkpoint.origin}.")
            key = self._keys.get(checkpoint.key_id)
            if key is None or not key.has_signed(checkpoint.signature, checkpoint.text.encode()):
                raise Bad(f"The checkpoint of {checkpoint.size} blocks is not signed by a key that is trusted.")
            if checkpoint.root != self._tree.root():
                raise Bad(f"The log was rewritten at or before block {checkpoint.size - 1}: its checkpoint differs.")


def check_signature(
    header: dict[str, Any], signature: str, keys: Mapping[str, PublicKey], tree: Frontier, origin: str | None = None
) -> None:
    """Raise Bad unless the block, the last one of `tree`, bears the signature of the key that it names."""
    number, key = header["number"], keys.get(header["key"])
    if key is None:
        raise Bad(
            f"Block {number} is signed with the key {header['key']}, which no trusted key introduced. If it is "
            "yours, give its public key as well."
        )
    try:
        signed = from_base64(signature)
    except (ValueError, TypeError):
        signed = b""
    text = checkpoint_text(key.name, tree.size, tree.root()).encode()
    if (origin is not None and key.name != origin) or not key.has_signed(signed, text):
        raise Bad(f"Block {number} does not bear the signature of key {key.key_id}: header or signature changed.")


def tombstone_bytes(tombstone: Mapping[str, object]) -> bytes:
    return b"mcphub audit tombstone\n" + canonical(tombstone)


def tombstone_hash(tombstone: Mapping[str, object]) -> str:
    """Return the hash by which the next tombstone names this one."""
    return hashlib.sha256(tombstone_bytes(tombstone)).hexdigest()


def _span(tombstone: Mapping[str, object]) -> str:
    return f"{tombstone.get('first_block')} to {tombstone.get('last_block')}"


# One row -----------------------------------------------------------------------------------------------


def check_proof(proof: dict[str, Any], keys: Iterable[PublicKey]) -> list[dict[str, Any]]:
    """Return the log's statements about the rows of a proof; raise Bad unless all are in a log signed by a trusted
    key.
    """
    try:
        checkpoint = Checkpoint.parse(proof["checkpoint"])
        rows = [(table, proof[table]) for table in TABLES if proof.get(table) is not None]
        key = {key.key_id: key for key in keys}.get(checkpoint.key_id)
        if key is None or key.name != checkpoint.origin:
            raise Bad(f"The checkpoint is signed with the key {checkpoint.key_id}, which is not trusted.")
        if not key.has_signed(checkpoint.signature, checkpoint.text.encode()):
            raise Bad("The checkpoint does not bear the signature of its key.")
        if not rows or proof["size"] != checkpoint.size:
            raise Bad("The proof holds no row, or is of another log than its checkpoint.")
        return [_proved(table, row, checkpoint) for table, row in rows]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Bad(f"Not a proof: {error!r}.") from None


def _proved(table: str, row: dict[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    header, index, covered = row["block"], row["index"], row["covered"].encode()
    name, values = f"{table} {row['id']}", loads(row["covered"])
    after, through, _ = header[table]
    if (values["table"], values["id"], row["table"]) != (table, row["id"], table) or not after < row["id"] <= through:
        raise Bad(f"{name}: the proof is of another row.")
    if leaf_hash(covered).hex() != row["leaf"] or row["position"] != header["first"] + index:
        raise Bad(f"{name}: its hash or position does not follow from what it covers.")
    path = [from_hex(each) for each in row["row_path"]]
    if root_from_inclusion(index, header["count"], leaf_hash(covered), path).hex() != header["root"]:
        raise Bad(f"{name} is not in block {header['number']}.")
    path = [from_hex(each) for each in row["block_path"]]
    leaf = leaf_hash(canonical(header))
    if root_from_inclusion(header["number"], checkpoint.size, leaf, path) != checkpoint.root:
        raise Bad(f"{name}: block {header['number']} is not in the log that the checkpoint signs.")
    return dict(values)


# The command -------------------------------------------------------------------------------------------


def read_export(lines: Iterable[bytes], read: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
    """Return the records of an export; `read` receives the number of bytes of each."""
    for number, line in enumerate(lines, 1):
        try:
            record = loads(line)
            if not isinstance(record, dict) or not line.endswith(b"\n"):
                raise ValueError
        except ValueError:
            raise Bad(f"Line {number} is not a record of an export, or is cut off.") from None
        if read is not None:
            read(len(line))
        yield record


def show_progress(done: int, whole: int, words: str) -> None:
    """Draw a bar on a terminal."""
    share = min(done / whole, 1.0) if whole else 1.0
    print(f"\r{'█' * int(share * 30):<30} {share:4.0%} {words}", end="", file=sys.stderr, flush=True)


def _stop(sentence: str, status: int) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(status)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: all is as it was sealed; 1: it is not; 2: it could not be looked at."""
    parser = argparse.ArgumentParser(description="Verify an audit export of MCP Hub, or the proof of one row.")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("export", nargs="?", type=Path, help="the export, as JSON lines")
    given.add_argument("--proof", type=Path, help="the proof of a call or an event, as REST gives it")
    parser.add_argument("--key", required=True, type=Path, help="a file of public keys that you trust")
    parser.add_argument("--checkpoint", type=Path, help="a file of checkpoints that were kept elsewhere")
    options = parser.parse_args(arguments)
    try:
        if options.proof:
            return _main_proof(options.proof, options.key)
        checkpoints = read_checkpoints(options.checkpoint.read_text()) if options.checkpoint else []
        verifier = Verifier(read_keys(options.key.read_text()), checkpoints)
        whole, done, bar = options.export.stat().st_size, 0, sys.stderr.isatty()
        with options.export.open("rb") as lines:
            for count, record in enumerate(read_export(lines)):
                verifier.feed(record)
                if bar and count % 20_000 == 0:
                    done = lines.tell() if lines.seekable() else done
                    show_progress(done, whole, f"{verifier.summary.rows} rows")
            summary = verifier.finish()
    except OSError as error:
        _stop(f"{error.filename}: {error.strerror}", 2)
    except (Bad, UnicodeDecodeError) as bad:
        _stop(f"\nBAD: {bad}", 1)
    print(describe(summary))
    return 0


def _main_proof(file: Path, key: Path) -> int:
    try:
        proof = loads(file.read_bytes())
    except ValueError:
        raise Bad("Not a proof: it is no JSON.") from None
    for values in check_proof(proof, read_keys(key.read_text())):
        print(f"{values['table']} {values['id']} is in the log of {proof['size']} blocks, as it was sealed.")
    return 0


def describe(summary: Summary) -> str:
    parts = [f"{summary.rows} rows in {summary.blocks} blocks are as they were sealed"]
    for number, words in (
        (summary.omitted, "left out"),
        (summary.removed, "removed"),
        (summary.erased, "without bodies"),
    ):
        if number:
            parts.append(f"{number} {words}")
    if summary.last:
        parts.append(f"the last at {summary.last}")
    return f"{', '.join(parts)}. Keys: {', '.join(summary.keys)}."


if __name__ == "__main__":
    raise SystemExit(main())
