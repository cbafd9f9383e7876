"""Objects in a store that speaks S3: one PUT a delivery.

An object is named by its first and last position: a delivery that is repeated writes the object once more.
"""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

from mcphub.features.audit_export.destinations.parquet import parquet_of
from mcphub.features.audit_export.reading import Shipment
from tools_catalog.egress.object_store import Credential, ObjectStore
from tools_catalog.egress.sending import HttpSender


class S3Target:
    def __init__(
        self, sender: HttpSender, address: str, access_id: str, secret: str, region: str, *, is_parquet: bool
    ) -> None:
        """`address`: https://endpoint/bucket/prefix."""
        self._sender = sender
        self._store = ObjectStore(sender, address, Credential(access_id, secret), region)
        self._is_parquet = is_parquet

    def deliver(self, shipment: Shipment) -> int:
        day = f"{shipment.since or datetime.now(UTC):%Y/%m/%d}"
        if self._is_parquet:
            name, kind, body = f"{shipment.stem}.parquet", "application/vnd.apache.parquet", parquet_of(shipment)
        else:
            name, kind = f"{shipment.stem}.jsonl.gz", "application/gzip"
            body = gzip.compress(shipment.lines, 6, mtime=0)
        self._store.put(f"{day}/{name}", kind, body)
        return 0

    def close(self) -> None:
        self._sender.close()
