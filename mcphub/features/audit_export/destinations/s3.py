"""Objects in a store that speaks S3: one PUT a delivery, signed by botocore (the extra `mcphub[s3]`).

Of the AWS SDK only the signature is used. The request itself goes the way of all others, through the egress guard;
boto3's own client would connect wherever a name or a redirect leads. An object is named by its first and last
position: a delivery that is repeated writes the object once more.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from mcphub.features.audit_export.destinations.parquet import parquet_of
from mcphub.features.audit_export.destinations.sending import HttpSender
from mcphub.features.audit_export.reading import Shipment

MISSING = "S3 needs botocore, which is not installed here. Install mcphub[s3]."


def is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("botocore") is not None


class S3Target:
    def __init__(
        self, sender: HttpSender, address: str, access_id: str, secret: str, region: str, *, is_parquet: bool
    ) -> None:
        """`address`: https://endpoint/bucket/prefix."""
        self._sender = sender
        url = urlsplit(address)
        self._origin = f"{url.scheme}://{url.netloc}"
        self._prefix = url.path.rstrip("/")
        self._access_id, self._secret, self._region = access_id, secret, region or "us-east-1"
        self._is_parquet = is_parquet

    def deliver(self, shipment: Shipment) -> int:
        day = f"{shipment.since or datetime.now(UTC):%Y/%m/%d}"
        if self._is_parquet:
            name, kind, body = f"{shipment.stem}.parquet", "application/vnd.apache.parquet", parquet_of(shipment)
        else:
            name, kind = f"{shipment.stem}.jsonl.gz", "application/gzip"
            body = gzip.compress(shipment.lines, 6, mtime=0)
        self._put(f"{self._prefix}/{day}/{name}", kind, body)
        return 0

    def _put(self, path: str, kind: str, body: bytes) -> None:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        url = self._origin + quote(path, safe="/-_.~")
        headers = {
            "Content-Type": kind,
            "X-Amz-Content-SHA256": hashlib.sha256(body).hexdigest(),
            "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
        }
        request = AWSRequest("PUT", url, headers=headers, data=body)
        S3SigV4Auth(Credentials(self._access_id, self._secret), "s3", self._region).add_auth(request)
        self._sender.send("PUT", url, dict(request.headers.items()), body)

    def close(self) -> None:
        self._sender.close()
