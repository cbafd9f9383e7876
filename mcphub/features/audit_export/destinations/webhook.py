"""JSON lines, POSTed and signed according to Standard Webhooks (standardwebhooks.com, version 1.0.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time

from mcphub.features.audit_export.reading import Shipment
from tools_catalog.egress.sending import HttpSender

_MARK = "whsec_"


class WebhookTarget:
    def __init__(self, sender: HttpSender, url: str, secret: str, name: str) -> None:
        self._sender, self._url, self._secret, self._name = sender, url, secret, name

    def deliver(self, shipment: Shipment) -> int:
        body = shipment.lines
        message_id = f"{self._name}-{shipment.first}-{shipment.reached.position}"
        headers = {"content-type": "application/x-ndjson", "webhook-id": message_id}
        headers["webhook-timestamp"] = moment = str(int(time.time()))
        if self._secret:
            headers["webhook-signature"] = signature(self._secret, message_id, moment, body)
        self._sender.send("POST", self._url, headers, body)
        return 0

    def close(self) -> None:
        self._sender.close()


def signature(secret: str, message_id: str, moment: str, body: bytes) -> str:
    signed = f"{message_id}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key_of(secret), signed, hashlib.sha256)).decode()


def key_of(secret: str) -> bytes:
    """Return the signing bytes: after `whsec_`, Base64; otherwise the text itself."""
    if secret.startswith(_MARK):
        try:
            return base64.b64decode(secret.removeprefix(_MARK), validate=True)
        except binascii.Error:
            pass
    return secret.encode()
