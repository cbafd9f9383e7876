"""Objects in a store that speaks S3, signed by botocore (the extra `mcphub[s3]`).

Of the AWS SDK only the signature is used. Requests go the way of all others, through the egress guard; boto3's own
client would connect wherever a name or a redirect leads. Files go up and come down in pieces, which bounds memory.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit
from xml.etree.ElementTree import Element, ParseError, fromstring
from xml.sax.saxutils import escape

from tools_catalog.egress.sending import PATIENCE_SECONDS, HttpSender, NotDelivered, TargetAnswer

MISSING = "S3 needs botocore, which is not installed here. Install mcphub[s3]."
PIECE_BYTES: Final = 8 * 1024 * 1024
_MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""A page of a list has at most 1000 objects."""
_MOST_OBJECTS: Final = 1_000_000
_ONLY_NEW: Final = {"If-None-Match": "*"}


def is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("botocore") is not None


@dataclass(frozen=True, slots=True)
class Credential:
    access_id: str
    secret: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class StoredObject:
    size: int
    etag: str


class ObjectStore:
    """The objects below a prefix of a bucket. Every method raises NotDelivered; `sender` is closed by its owner."""

    def __init__(self, sender: HttpSender, address: str, credential: Credential, region: str) -> None:
        """`address`: https://endpoint/bucket/prefix."""
        self._sender, self._credential, self._region = sender, credential, region or "us-east-1"
        url = urlsplit(address)
        self._origin = f"{url.scheme}://{url.netloc}"
        self._bucket, _, prefix = url.path.strip("/").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def put(self, key: str, kind: str, body: bytes, *, only_new: bool = False) -> None:
        """Write an object; with `only_new`, raise NotDelivered with the status 412 where one has this key."""
        checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
        headers = {"Content-Type": kind, "x-amz-checksum-sha256": checksum, **(_ONLY_NEW if only_new else {})}
        self._send("PUT", key, {}, headers, body)

    def put_file(self, key: str, kind: str, path: Path, sent: Callable[[int], object]) -> None:
        """Write a file as a new object, in pieces where it is long; `sent` receives the size of each."""
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= PIECE_BYTES:
                self.put(key, kind, file.read(), only_new=True)
                sent(size)
                return
            begun = self._send("POST", key, {"uploads": ""}, {"Content-Type": kind}, b"")
            upload = _text(_xml(begun), "UploadId")
            try:
                parts = ""
                for number in range(1, math.ceil(size / PIECE_BYTES) + 1):
                    piece = file.read(PIECE_BYTES)
                    answer = self._send("PUT", key, {"partNumber": str(number), "uploadId": upload}, {}, piece)
                    etag = escape(answer.headers.get("etag", ""))
                    parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
                    sent(len(piece))
                whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
                ended = _xml(self._send("POST", key, {"uploadId": upload}, _ONLY_NEW, whole))
            except NotDelivered:
                with suppress(NotDelivered):
                    self._send("DELETE", key, {"uploadId": upload}, {}, b"")
                raise
        if ended.tag.endswith("Error"):  # which S3 answers with status 200
            raise NotDelivered(f"it could not join the pieces: {_text(ended, 'Code')}")

    def piece(self, key: str, begin: int, size: int, *, seconds: float = PATIENCE_SECONDS) -> bytes:
        """Return the bytes of an object from `begin` on, at most `size`."""
        ranged = {"Range": f"bytes={begin}-{begin + size - 1}", "Accept-Encoding": "identity"}
        return self._send("GET", key, {}, ranged, b"", most_bytes=size, seconds=seconds).body

    def objects(self, *, seconds: float = PATIENCE_SECONDS) -> dict[str, StoredObject]:
        """Return the objects by their keys below the prefix."""
        found: dict[str, StoredObject] = {}
        query = {"list-type": "2", "prefix": self._prefix}
        while True:
            page = _xml(self._send("GET", None, query, {}, b"", most_bytes=_MOST_ANSWER_BYTES, seconds=seconds))
            for each in page.iterfind("{*}Contents"):
                key = _text(each, "Key").removeprefix(self._prefix)
                found[key] = StoredObject(_size(each), _text(each, "ETag"))
            if _text(page, "IsTruncated") != "true":
                return found
            token = _text(page, "NextContinuationToken")
            if token in ("", query.get("continuation-token")) or len(found) > _MOST_OBJECTS:
                raise NotDelivered("its list of objects does not end")
            query["continuation-token"] = token

    def keeps_versions(self) -> bool:
        """Return whether the bucket keeps versions of its objects."""
        return _text(_xml(self._send("GET", None, {"versioning": ""}, {}, b"")), "Status") == "Enabled"

    def _send(
        self,
        method: str,
        key: str | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        *,
        most_bytes: int = _MOST_ANSWER_BYTES,
        seconds: float = PATIENCE_SECONDS,
    ) -> TargetAnswer:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        path = f"/{self._bucket}" + (f"/{self._prefix}{key}" if key is not None else "")
        asked = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))
        url = self._origin + quote(path, safe="/-_.~") + (f"?{asked}" if asked else "")
        signed = {**headers, "X-Amz-Content-SHA256": hashlib.sha256(body).hexdigest()}
        request = AWSRequest(method, url, headers=signed, data=body)
        by = Credentials(self._credential.access_id, self._credential.secret, self._credential.token or None)
        S3SigV4Auth(by, "s3", self._region).add_auth(request)
        try:
            return self._sender.send(
                method, url, dict(request.headers.items()), body, most_bytes=most_bytes, seconds=seconds
            )
        except NotDelivered as problem:
            with suppress(ParseError):
                error = fromstring(problem.body)  # noqa: S314 - as in _xml
                if code := _text(error, "Code"):
                    problem.args = (f"status {problem.status}, {code}: {_text(error, 'Message').rstrip('.')}",)
            raise


def _xml(answer: TargetAnswer) -> Element:
    try:
        return fromstring(answer.body)  # noqa: S314 - of the operator's own store, bounded; expat bounds its entities
    except ParseError:
        raise NotDelivered("its answer is not that of an S3 store") from None


def _size(element: Element) -> int:
    try:
        return int(_text(element, "Size"))
    except ValueError:
        raise NotDelivered("its answer is not that of an S3 store") from None


def _text(element: Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}", "")
