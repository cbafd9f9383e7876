"""What becomes of an audit that somebody tampers with: every sampled change must be found, and its row named.

    python -m tests.rigs.tampering [--database postgresql] [--rows 20000] [--samples 20] [--bytes 2000]

Processes write and seal at the same time, two of each; then nothing may be missing or sealed twice. Then every column
of sampled rows, blocks, hashes and tombstones is changed, and they are deleted, inserted and moved; bytes are changed
in an export and in published checkpoints; the log is cut, and sealed anew with another key and with its own. At last a
sealed, published call is taken out of the middle of a log while its hub runs. Prints figures.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_BATCH = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--rows", type=int, default=20_000, help="calls, each with two rows")
    parser.add_argument("--samples", type=int, default=20, help="rows of each table to tamper with")
    parser.add_argument("--bytes", type=int, default=2000, help="bytes of an export to change")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    return max(_at_rest(options), _while_a_hub_runs(options.database))


def _while_a_hub_runs(database: str) -> int:
    from tests.rigs.rewriting import FAST, Rewriting
    from tests.servers import Hub, postgres_database

    environment, flags = dict(FAST), []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-tampering-"))
        if database == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
            flags = ["--workers", "2"]
        hub = stack.enter_context(Hub(Path(folder), environment=environment, flags=flags))
        found = Rewriting(hub).run()
    for promise, why in found.items():
        if why:
            print(f"not kept: {promise}: {why}")
    kept = sum(not why for why in found.values())
    print(f"a call taken out while a hub runs: {kept} of {len(found)} promises kept")
    return 0 if kept == len(found) else 1


def _at_rest(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-tampering-"))
        os.environ |= {"MCPHUB_DATA_DIR": folder, "MCPHUB_ALLOW_NOT_DURABLE": "1"}
        if options.database == "postgresql":
            from tests.servers import postgres_database

            os.environ["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        _django()
        from django.db import connections

        from mcphub.process import first_run

        first_run.migrate()
        try:
            return _Rig(options.samples, options.bytes, random.Random(options.seed)).run(options.rows)
        finally:
            connections["default"].close()
            if hasattr(connections["default"], "close_pool"):
                connections["default"].close_pool()


def _django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    import django

    django.setup()


def _write(calls: int) -> None:
    """One process that records calls, in batches as the ledger's."""
    _django()
    from sessions_app.kit.database import Dedicated
    from tests.invocations.chain.rows import fill

    for _ in range(calls // _BATCH):
        fill(Dedicated(), _BATCH)


def _seal(stop: Any) -> None:
    """One process that seals beside another, with no lease between them."""
    _django()
    from invocations.chain import service
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    sealer = service.sealer_of(database)
    while not stop.is_set():
        sealer.seal()
    database.close()


class _Rig:
    def __init__(self, samples: int, mutations: int, choose: random.Random) -> None:
        from invocations.chain import service
        from sessions_app.kit.database import Dedicated

        self.samples, self.mutations, self.choose = samples, mutations, choose
        self.database = Dedicated()
        self.log, self.keys = service.log_of(self.database), service.keys()
        self.tried = self.found = 0

    def run(self, calls: int) -> int:
        try:
            self._age()
            self._race(calls)
            self._verify()
            self._rows()
            self._checkpoints()
            self._export()
            self._sealed_anew()
        finally:
            self.database.close()
        print(f"{self.found} of {self.tried} changes found and named")
        return 0 if self.found == self.tried else 1

    def _race(self, calls: int) -> None:
        from invocations.chain import service

        service.sealer_of(self.database).seal()  # the key, before two processes make one each
        before = self.log.head().position
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        sealers = [context.Process(target=_seal, args=[stop]) for _ in range(2)]
        writers = [context.Process(target=_write, args=[calls // 2]) for _ in range(2)]
        began = time.monotonic()
        for process in [*sealers, *writers]:
            process.start()
        for process in writers:
            process.join()
        written = time.monotonic() - began
        behind = service.sealer_of(self.database).unsealed()
        stop.set()
        for process in sealers:
            process.join()
        assert not any(process.exitcode for process in [*sealers, *writers]), "a process failed"
        service.sealer_of(self.database).seal()
        sealed = self.log.head().position - before
        expected = calls // 2 // _BATCH * _BATCH * 2 * 2
        print(f"{expected} rows written by 2 processes in {written:.1f} s, 2 sealing; {behind} not sealed at the end")
        assert sealed == expected, f"{sealed} rows sealed, {expected} written"

    def _verify(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        summary = self._check()
        seconds, own = time.monotonic() - began, time.process_time() - cpu
        print(
            f"verify: {summary.rows} rows, {summary.rows / seconds:.0f} rows/s ({summary.rows / own:.0f} a CPU second)"
        )

    def _check(self, checkpoints: Sequence[Any] = ()) -> Any:
        from invocations.chain import checking

        return checking.verify(self.log, self.keys, self.keys.publics(), checkpoints)

    def _expect(self, *names: str, what: str = "", checkpoints: Sequence[Any] = ()) -> None:
        from invocations.chain.verifier import Bad

        self.tried += 1
        try:
            self._check(checkpoints)
        except Bad as bad:
            if any(name in str(bad) for name in names):
                self.found += 1
            else:
                print(f"wrong row named: {names[0]}: {bad} {what[:200]}")
        else:
            print(f"not found: {names[0]} {what[:200]}")

    def _age(self) -> None:
        """Blocks of long ago, of which retention removes rows and bodies, so that there are tombstones."""
        from invocations.chain import retention
        from invocations.chain.models import AuditPolicy
        from invocations.chain.sealer import Sealer
        from tests.invocations.chain.rows import event, fill

        for days in (20, 20, 10, 10):
            fill(self.database, 20)
            event()
            Sealer(self.log, self.keys, now=lambda days=days: datetime.now(UTC) - timedelta(days=days)).seal()
        AuditPolicy(rows_days=15, bodies_days=5).save()
        assert all(retention.apply(self.log, self.keys))

    def _rows(self) -> None:
        """Each deed alone in a transaction that is rolled back: only the proof is asked, not the triggers."""
        from django.db import IntegrityError

        from tests.rigs import spoiling

        run, began, tried = spoiling.Query(self.log), time.monotonic(), self.tried
        for deed in (
            *spoiling.of_rows(run, self.choose, self.samples),
            *spoiling.of_blocks(run, self.choose, self.samples),
            *spoiling.of_tombstones(run),
        ):
            # What is against a constraint of the table does not even get in.
            with contextlib.suppress(IntegrityError, *_constraints()), spoiling.undone(self.database) as execute:
                for statement in deed.statements:
                    execute(statement)
                self._expect(*deed.names, what="; ".join(deed.statements))
        print(f"database: {self.tried - tried} changes in {time.monotonic() - began:.1f} s")

    def _checkpoints(self) -> None:
        """Bytes of the published checkpoints; two that were swapped; a log that was cut."""
        from invocations.chain.publishing import published
        from invocations.chain.sealer import checkpoint_note
        from invocations.chain.tables import AUDITED
        from invocations.chain.verifier import Bad
        from tests.rigs import spoiling

        file, size = Path(os.environ["MCPHUB_DATA_DIR"]) / "kept", self.log.size()
        sizes = [1, size - 1, size]
        notes = [checkpoint_note(self.log, self.keys, each) for each in sizes]
        whole = "".join(f"{note}\n" for note in notes).encode()
        file.write_bytes(whole)
        kept = published(file)
        self._check(kept)
        for _ in range(self.mutations // 10):
            changed = bytearray(whole)
            changed[self.choose.randrange(len(whole))] ^= self.choose.randrange(1, 256)
            file.write_bytes(changed)
            self.tried += 1
            try:
                found = published(file)
                if found != kept:  # else it was a blank line
                    self._check(found)
                    print(f"not found: {bytes(changed)!r}")
                    continue
            except Bad:
                pass
            self.found += 1
        swapped = notes[0].replace("\n1\n", f"\n{size - 1}\n", 1)
        file.write_text(swapped + "\n")
        self._expect(f"The checkpoint of {size - 1} blocks is not signed", checkpoints=published(file))
        through = self.log.block(size - 2)
        assert through is not None
        with spoiling.undone(self.database) as execute:
            for of in AUDITED:
                execute(f"DELETE FROM {of.table} WHERE id > {through.span(of.name)[1]}")
            execute(f"DELETE FROM invocations_auditleaves WHERE block_id > {size - 2}")
            execute(f"DELETE FROM invocations_auditblock WHERE number > {size - 2}")
            self._expect("truncated", checkpoints=kept)

    def _sealed_anew(self) -> None:
        """Rewrite the whole log over a changed row: with a key of one's own, then with the stolen one. For good."""
        from invocations.chain import service
        from invocations.chain.keys import KeyFolder, Signer
        from invocations.chain.sealer import Sealer, checkpoint_note
        from invocations.chain.tables import AUDITED, INVOCATION
        from invocations.chain.verifier import Checkpoint

        raw = self.database.raw
        kept = [Checkpoint.parse(checkpoint_note(self.log, self.keys, 1))]
        forged = KeyFolder(self.keys.folder.parent / "forged")
        forged.keep(Signer.make(self.keys.publics()[0].name))
        if self.database.is_sqlite:
            for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                raw.execute(f"DROP TRIGGER {name}")
        else:
            raw.execute("SET session_replication_role = replica")
        for of in AUDITED:  # of which no tombstone will tell
            for body in of.bodies:
                raw.execute(f"DELETE FROM {of.table} WHERE {body} LIKE '\"sha256:%'")
        for folder, name in ((forged, "Block 0 is signed with the key"), (self.keys, "The log was rewritten")):
            for table in ("auditleaves", "auditblock", "audittombstone"):
                raw.execute(f"DELETE FROM invocations_{table}")
            raw.execute(f"UPDATE {INVOCATION.table} SET principal = 'key:2'")
            Sealer(service.log_of(self.database), folder).seal()
            self._expect(name, checkpoints=kept if folder is self.keys else [])

    def _export(self) -> None:
        from invocations.chain import exporting
        from invocations.chain.records import RowSelection
        from invocations.chain.verifier import Bad, Verifier, canonical, read_export

        path = Path(os.environ["MCPHUB_DATA_DIR"]) / "export"
        last = self.log.size() - 1
        with path.open("wb") as out:
            exporting.write_jsonl(out, self.log, self.keys, RowSelection(), max(0, last - 1), last)
        raw = path.read_bytes()
        lines = raw.splitlines(keepends=True)
        began = time.monotonic()

        def check(given: list[bytes]) -> None:
            verifier = Verifier(self.keys.publics())
            for record in read_export(given):
                verifier.feed(record)
            verifier.finish()

        check(lines)
        # The first line says how the export was made; what of it matters is checked by what follows.
        for _ in range(self.mutations):
            at = self.choose.randrange(1, len(lines))
            changed = bytearray(lines[at])
            changed[self.choose.randrange(len(changed))] ^= self.choose.randrange(1, 256)
            self.tried += 1
            try:
                check([*lines[:at], bytes(changed), *lines[at + 1 :]])
            except Bad:
                self.found += 1
            else:
                with contextlib.suppress(Bad):
                    same = [canonical(record) for record in read_export([bytes(changed), lines[at]])]
                    self.found += same[0] == same[1]  # another way to write the same record
        print(f"export: {self.mutations} changed bytes in {time.monotonic() - began:.1f} s")


def _constraints() -> tuple[type[Exception], ...]:
    import sqlite3

    import psycopg

    return (sqlite3.IntegrityError, psycopg.IntegrityError)


if __name__ == "__main__":
    sys.exit(main())
