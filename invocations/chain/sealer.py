"""Turns committed rows into signed blocks, outside the request path. Needs no Django.

A block takes, of each table, the rows after the last block's through a bound below which nothing can still come to
light. It is one INSERT transaction: a sealer that dies leaves a whole block or none, and of two sealers of one number
the second loses by the primary key and starts again from the current state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from invocations.chain.commanding import Signs
from invocations.chain.keys import KeyFolder, KeyProblem, note, sign_checkpoint
from invocations.chain.log import Head, Log, LostRace, row_leaf
from invocations.chain.tables import AUDITED, INVOCATION
from invocations.chain.verifier import Frontier, canonical, leaf_hash, merkle_root
from invocations.chain.watching import Watch
from invocations.figures import tallies

if TYPE_CHECKING:
    from invocations.parts import FollowingModule

MOST_ROWS = 2048
"""Of one table in one block. A block is verified, removed and held as a whole."""
_PATIENCE_SECONDS = 2.0
"""For transactions under way that may hold rows; after that the round ends and the next one tries again."""


class Sealer:
    """Seals over one connection."""

    def __init__(
        self,
        log: Log,
        keys: KeyFolder,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        watch: Watch | None = None,
        followers: Sequence[FollowingModule] = (),
    ) -> None:
        self._log = log
        self._keys = keys
        self._now = now
        self._followers = followers
        self.watch = watch or Watch(log, publics=keys.publics)
        self._sealed: tuple[int, bytes, str, str] | None = None
        self.sealed_rows = 0

    def seal(self) -> int:
        """Seal the pending rows; return their number.

        Raises Rewritten if the log differs from the one this process saw last, KeyProblem, or a database error.
        """
        self.watch.head()
        bounds = self._bounds()
        if bounds is None:
            return 0
        total = 0
        while rows := self._block(bounds):
            total += rows
        self.sealed_rows += total
        return total

    def _bounds(self) -> dict[str, int] | None:
        """Give, by table, an id up to which every row that will ever be is visible now; None where that waits."""
        bounds = self._log.highest()
        pending = self._log.writers()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while pending:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)  # a transaction's end cannot be waited for
            pending &= self._log.writers()
        return bounds

    def _block(self, bounds: dict[str, int]) -> int:
        head = self.watch.head()
        leaves: list[tuple[int, bytes]] = []
        spans: dict[str, list[int]] = {}
        calls = tallies.Count()
        failed: list[Mapping[str, Any]] = []
        for of in AUDITED:
            after = head.through[of.name]
            rows = self._log.rows(of, after, bounds[of.name], MOST_ROWS, digests=True)
            found = []
            for values in rows:
                found.append((values["id"], row_leaf(of.name, values)))
                if of is INVOCATION:
                    calls.see(values)
                    if values["status"] == "error":
                        failed.append(values)
            through = found[-1][0] if len(found) == MOST_ROWS else max(bounds[of.name], after)
            spans[of.name] = [after, through if found else after, len(found)]
            leaves += found
        if not leaves:
            return 0
        signer = self._signer(head)
        header = {
            **spans,
            "count": len(leaves),
            "first": head.position,
            "format": 1,
            "key": signer.public.key_id,
            "number": head.tree.size,
            "previous": head.previous,
            "root": merkle_root([leaf for _, leaf in leaves]).hex(),
            "sealed_at": self._now().isoformat(timespec="microseconds"),
        }
        leaf = leaf_hash(canonical(header))
        tree = Frontier(head.tree.size, head.tree.roots)  # the watch keeps its own until the block is committed
        made = tree.append(leaf)
        root = tree.root()
        try:
            signature = sign_checkpoint(signer, tree.size, root)
            followed = [(follower, follower.gained(self._log, failed)) for follower in self._followers]
            self._log.append(header, leaves, made, root, signature, calls.found(), followed)
        except LostRace:
            return self._block(bounds)
        self.watch.saw(
            Head(
                tree,
                leaf.hex(),
                head.position + len(leaves),
                {name: span[1] for name, span in spans.items()},
                signer.public.key_id,
            )
        )
        self._sealed = (tree.size, root, signature, signer.public.key_id)
        return len(leaves)

    def _signer(self, head: Head) -> Signs:
        """Return the key; a machine that has another one than the log must not sign it."""
        if head.tree.size == 0:
            return self._keys.signer(may_make=True)
        signer = self._keys.signer()
        last = self._log.block(head.tree.size - 1)
        assert last is not None
        if signer.public.key_id != last.key_id and not self._introduced(signer):
            raise KeyProblem(
                f"The audit is signed with the key {last.key_id}, and {self._keys.where} is {signer.public.key_id}. "
                "Copy the folder from the machine that began the audit, so that all sign with one key."
            )
        return signer

    def _introduced(self, signer: Signs) -> bool:
        """Return whether a rotation recorded in the log introduced this key."""
        rows = self._log.run(
            "SELECT after FROM sessions_app_auditevent WHERE kind IN ('audit.key_rotated', 'audit.key_lost') "
            "ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return rows is not None and str(signer.public) in rows[0]

    def check_key(self) -> None:
        """Raise KeyProblem where the next block could not be signed here; it signs something on trial."""
        head = self._log.head()
        if head.tree.size or self._keys.given is not None:
            signer = self._signer(head) if head.tree.size else self._keys.signer()
            sign_checkpoint(signer, 0, Frontier().root())

    def unsealed(self) -> int:
        """Return about how many rows wait: the distance between ids, which may have gaps."""
        head, highest = self._log.head(), self._log.highest()
        return sum(max(0, highest[name] - through) for name, through in head.through.items())

    def last_sealed(self) -> str | None:
        """Return the signed note of this process's last block, whatever the database holds by now."""
        if self._sealed is None:
            return None
        size, root, signature, key_id = self._sealed
        public = next((key for key in self._keys.publics() if key.key_id == key_id), None)
        return note(public, size, root, signature) if public else None

    def checkpoint(self) -> tuple[int, str] | None:
        """Return size and signed note of the log as it is; None while it is empty. Raises Rewritten."""
        size = self.watch.head().tree.size
        return (size, checkpoint_note(self._log, self._keys, size)) if size else None


def checkpoint_note(log: Log, keys: KeyFolder, size: int) -> str:
    """Return the checkpoint of the first `size` blocks, as it was signed when the last of them was sealed."""
    block = log.block(size - 1) if size <= log.size() else None
    if block is None:
        raise KeyProblem(f"The log has no {size} blocks.")
    public = next((key for key in keys.publics() if key.key_id == block.key_id), None)
    if public is None:
        raise KeyProblem(f"The public key {block.key_id} is not among those in {keys.public}.")
    return note(public, size, block.tree_root, block.signature)
