"""What somebody with the hub's rights does to a log that grows: `Hub.operate` runs these beside the hub."""

from __future__ import annotations

from typing import Any


def state() -> dict[str, int]:
    """Return how many blocks the log has, how many the published checkpoints tell of, and about how many rows wait."""
    from invocations.chain import publishing, service
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    try:
        kept = publishing.published(service.checkpoints())
        return {
            "blocks": service.log_of(database).size(),
            "published": kept[-1].size if kept else 0,
            "waiting": service.sealer_of(database).unsealed(),
        }
    finally:
        database.close()


def take_out() -> dict[str, Any]:
    """Remove a sealed, published call from the middle, and seal all from there anew with the hub's key."""
    from django.db import connection

    from invocations.chain import service
    from invocations.chain.sealer import Sealer
    from sessions_app.kit.database import Dedicated
    from tests.committed import without_rules

    database = Dedicated()
    log, keys = service.log_of(database), service.keys()
    try:
        size = log.size()
        number = next(
            block.number for block in log.blocks(size // 3, size - 2) if block.header["invocation"][2] and block.number
        )
        table = "invocations_mcptoolinvocation"
        after, through, _ = log.block(number).header["invocation"]  # type: ignore[union-attr]
        row = log.run(f"SELECT max(id) FROM {table} WHERE id > ? AND id <= ?", after, through).fetchone()[0]
        with connection.cursor() as cursor, without_rules(cursor):
            cursor.execute(f"DELETE FROM {table} WHERE id = {row}")
            cursor.execute(f"DELETE FROM invocations_auditleaves WHERE block_id >= {number}")
            cursor.execute(f"DELETE FROM invocations_auditblock WHERE number >= {number}")
        Sealer(log, keys).seal()
        return {"row": row, "block": number, "of": size, "blocks": log.size()}
    finally:
        database.close()
