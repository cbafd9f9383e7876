"""From the row of a target to what delivers. One more kind is a file here, a line below and a choice of the row."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from django.conf import settings

from invocations.shipping.models import ShippingTarget
from invocations.shipping.reading import Shipment
from invocations.shipping.targets import otlp, parquet, s3
from invocations.shipping.targets.folder import FolderTarget
from invocations.shipping.targets.sending import HttpSender, NotDelivered
from invocations.shipping.targets.syslog import SyslogTarget
from invocations.shipping.targets.webhook import WebhookTarget
from tools_catalog.egress import guard
from tools_catalog.egress.rules import EgressPolicy


class Delivers(Protocol):
    def deliver(self, shipment: Shipment) -> int:
        """Bring a shipment there; give how many of its records were refused for good.

        Raises NotDelivered or OSError where it did not arrive as a whole. Ends within a minute.
        """

    def close(self) -> None:
        """End what is open."""


def missing(row: ShippingTarget) -> str:
    """Say which extra this machine lacks for a target; nothing where none is."""
    if row.kind == ShippingTarget.Kind.S3 and not s3.is_there():
        return s3.MISSING
    if row.kind == ShippingTarget.Kind.OTLP and not otlp.is_there():
        return otlp.MISSING
    if row.format == ShippingTarget.Format.PARQUET and not parquet.is_there():
        return parquet.MISSING
    return ""


def delivering(row: ShippingTarget) -> Delivers:
    """Give what delivers to a target. Raises NotDelivered where an extra is missing, or its secret cannot be read."""
    from tools_catalog.secrets import SecretError

    if why := missing(row):
        raise NotDelivered(why)
    try:
        secret = row.secret()
    except SecretError as error:
        raise NotDelivered(str(error)) from error
    policy = EgressPolicy.from_settings()
    is_parquet = row.format == ShippingTarget.Format.PARQUET
    if row.kind == ShippingTarget.Kind.FOLDER:
        folder = Path(settings.MCPHUB_SHIPPING_DIR) / row.address
        return FolderTarget(folder, row.file_mib * 1024 * 1024, is_parquet=is_parquet)
    if row.kind == ShippingTarget.Kind.SYSLOG:
        return SyslogTarget(policy, row.address, row.authority)
    sender = HttpSender(policy, guard.proxy_of_settings())
    if row.kind == ShippingTarget.Kind.S3:
        return s3.S3Target(sender, row.address, row.access_id, secret, row.region, is_parquet=is_parquet)
    if row.kind == ShippingTarget.Kind.OTLP:
        return otlp.OtlpTarget(sender, row.address, row.header, secret, settings.MCPHUB_VERSION)
    return WebhookTarget(sender, row.address, secret, row.name)
