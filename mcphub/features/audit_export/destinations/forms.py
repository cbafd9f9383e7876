"""Deliveries in the form of a SIEM: records as OCSF events, before they go to the destination."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from mcphub.features.audit_export.destinations import ocsf
from mcphub.features.audit_export.reading import Shipment


class _Delivers(Protocol):
    def deliver(self, shipment: Shipment) -> int: ...
    def close(self) -> None: ...


class AsOcsf:
    """Delivers each record as an OCSF event. The events of a delivery are one chain, named like its file."""

    def __init__(self, inner: _Delivers) -> None:
        self._inner = inner

    def deliver(self, shipment: Shipment) -> int:
        made = ocsf.lines(shipment.records, shipment.stem)
        records = [(record, line) for (record, _), line in zip(shipment.records, made, strict=True)]
        return self._inner.deliver(replace(shipment, records=records))

    def close(self) -> None:
        self._inner.close()
