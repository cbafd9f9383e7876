"""From the row of a destination to its deliverer. One more kind is a file here, a line below and a
choice of the row.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from django.conf import settings

from mcphub.features.audit_export.destinations import otlp, parquet, s3, siem_lines
from mcphub.features.audit_export.destinations.folder import FolderTarget
from mcphub.features.audit_export.destinations.forms import AsOcsf
from mcphub.features.audit_export.destinations.syslog import SyslogTarget
from mcphub.features.audit_export.destinations.webhook import WebhookTarget
from mcphub.features.audit_export.models import ShippingTarget
from mcphub.features.audit_export.reading import Shipment
from tools_catalog.egress import guard, object_store
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.egress.sending import HttpSender, NotDelivered


class Delivers(Protocol):
    def deliver(self, shipment: Shipment) -> int:
        """Bring a shipment there; give how many of its records were refused for good.

        Raises NotDelivered or OSError where it did not arrive as a whole. Ends within a minute.
        """

    def close(self) -> None:
        """Close open connections."""


def missing(row: ShippingTarget) -> str:
    """Return the extra that this machine lacks for a destination; empty if none."""
    if row.kind == ShippingTarget.Kind.S3 and not object_store.is_there():
        return object_store.MISSING
    if row.kind == ShippingTarget.Kind.OTLP and not otlp.is_there():
        return otlp.MISSING
    if row.format == ShippingTarget.Format.PARQUET and not parquet.is_there():
        return parquet.MISSING
    return ""


def delivering(row: ShippingTarget) -> Delivers:
    """Return the deliverer of a destination. Raises NotDelivered where an extra is missing, or its secret cannot be
    read.
    """
    from tools_catalog.secrets import SecretError

    if why := missing(row):
        raise NotDelivered(why)
    try:
        secret = row.secret()
    except SecretError as error:
        raise NotDelivered(str(error)) from error
    delivers = _of_kind(row, secret)
    return AsOcsf(delivers) if row.format == ShippingTarget.Format.OCSF else delivers


def _of_kind(row: ShippingTarget, secret: str) -> Delivers:
    policy = EgressPolicy.from_settings()
    is_parquet = row.format == ShippingTarget.Format.PARQUET
    if row.kind == ShippingTarget.Kind.FOLDER:
        folder = Path(settings.MCPHUB_SHIPPING_DIR) / row.address
        return FolderTarget(folder, row.file_mib * 1024 * 1024, is_parquet=is_parquet)
    if row.kind == ShippingTarget.Kind.SYSLOG:
        form = {ShippingTarget.Format.CEF: siem_lines.cef_of, ShippingTarget.Format.LEEF: siem_lines.leef_of}.get(
            ShippingTarget.Format(row.format)
        )
        text_of = None if form is None else partial(form, version=settings.MCPHUB_VERSION)
        return SyslogTarget(policy, row.address, row.authority, text_of)
    sender = HttpSender(policy, guard.proxy_of_settings())
    if row.kind == ShippingTarget.Kind.S3:
        return s3.S3Target(sender, row.address, row.access_id, secret, row.region, is_parquet=is_parquet)
    if row.kind == ShippingTarget.Kind.OTLP:
        return otlp.OtlpTarget(sender, row.address, row.header, secret, settings.MCPHUB_VERSION)
    return WebhookTarget(sender, row.address, secret, row.name)
