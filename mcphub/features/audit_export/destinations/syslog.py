"""Messages of RFC 5424 over TLS (RFC 5425) or TCP (RFC 6587), octets counted.

Syslog has no acknowledgements, and data that a system has accepted for a connection may be lost with it. So each
delivery has a connection of its own: the hub closes its sending side and waits until the receiver, having read
everything, closes. A receiver that dies before leaves a reset, and the delivery is repeated.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from httpcore2 import ConnectError

from invocations.chain.verifier import BODIES, body_digest
from mcphub.features.audit_export.reading import Shipment
from sessions_app.protocol import json
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.egress import guard
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.egress.sending import PATIENCE_SECONDS, NotDelivered

MOST_BYTES = 8192
"""Of a message: the size that RFC 5425, 4.3.1 asks receivers to accept."""
_NOTICE, _WARNING = 13 * 8 + 5, 13 * 8 + 4
"""RFC 5424, 6.2.1: facility 13, log audit."""
_LARGEST_ID = 2_147_483_647
TextOf = Callable[[dict[str, Any]], bytes]
_LONG = ("before", "after", "reason", "context", "header", "checkpoint")


class SyslogTarget:
    def __init__(self, policy: EgressPolicy, address: str, authority: str, text_of: TextOf | None = None) -> None:
        """`text_of` writes a record's text; without it the text is the record as JSON."""
        self._text_of = text_of
        self._policy = policy
        url = urlsplit(address)
        self._is_tls, self._host, self._port = url.scheme == "tls", url.hostname or "", url.port or 6514
        self._authority = authority

    def deliver(self, shipment: Shipment) -> int:
        messages = [message_of(record, line, self._text_of) for record, line in shipment.records]
        try:
            with self._connect() as line:
                line.sendall(b"".join(b"%d %b" % (len(each), each) for each in messages))
                _end(line)
        except EgressRefused as error:
            raise NotDelivered(str(error)) from error
        except ConnectError as error:
            raise NotDelivered(str(error) or "no connection") from error
        except ssl.SSLError as error:
            raise NotDelivered(f"TLS: {error.reason or error}") from error
        except TimeoutError as error:
            raise NotDelivered(f"it did not read all and close in {PATIENCE_SECONDS:.0f} seconds") from error
        except OSError as error:
            raise NotDelivered(error.strerror or str(error)) from error
        return 0

    def _connect(self) -> socket.socket:
        addresses = asyncio.run(guard.checked_addresses(self._policy, self._host, self._port))
        failure: OSError | None = None
        for address in addresses:
            try:
                line = socket.create_connection((str(address), self._port), timeout=PATIENCE_SECONDS)
                break
            except OSError as error:
                failure = error
        else:
            raise failure or OSError("The name has no address.")
        if not self._is_tls:
            return line
        context = ssl.create_default_context(cadata=self._authority) if self._authority else guard.tls_context()
        try:
            return context.wrap_socket(line, server_hostname=self._host)
        except BaseException:
            line.close()
            raise

    def close(self) -> None:
        pass


def _end(line: socket.socket) -> None:
    """Close the sending side, and wait until the other side closes."""
    if isinstance(line, ssl.SSLSocket):
        try:
            line = line.unwrap()
        except ssl.SSLEOFError:  # it closed without its own notice, after it had read ours
            return
    line.shutdown(socket.SHUT_WR)
    while line.recv(4096):
        pass


def message_of(record: dict[str, Any], line: bytes, text_of: TextOf | None = None) -> bytes:
    """Return a record as one message with the row's time; a long one loses bodies, then long values."""
    values = record.get("values", {})
    kind = next(name for name in ("row", "block", "tombstone", "export", "test") if name in record)
    told = record[kind] if isinstance(record[kind], dict) else values
    named = (told.get(name) for name in ("received_at", "happened_at", "sealed_at", "removed_at", "at"))
    moment = next(filter(None, named), "-")
    message_id = record["row"] if kind == "row" else kind
    severity = _WARNING if values.get("status") == "error" or "problem" in record else _NOTICE
    data = f'[meta sequenceId="{record["position"] % _LARGEST_ID + 1}"]' if "position" in record else "-"
    head = f"<{severity}>1 {_time(moment)} {_host()} mcphub {os.getpid()} {message_id} {data} ".encode()
    if text_of is not None:
        return head + text_of(record)[: MOST_BYTES - len(head)].decode(errors="ignore").encode()
    return head + _fitting(record, line.rstrip(b"\n"), MOST_BYTES - len(head))


def _fitting(record: dict[str, Any], line: bytes, most: int) -> bytes:
    text = _ascii(line)
    if len(text) <= most:
        return text
    shown = dict(record)
    if "values" in record:
        bodies = BODIES.get(record["row"], ())
        shown["values"] = {
            name: f'"{body_digest(value)}"' if name in bodies and value[:8] != '"sha256:' else value
            for name, value in record["values"].items()
        }
        text = _ascii(json.dumps(shown))
        if len(text) > most:
            cut = [name for name, value in shown["values"].items() if isinstance(value, str) and len(value) > 200]
            shown["values"] = {name: value for name, value in shown["values"].items() if name not in cut}
            text = _ascii(json.dumps({**shown, "left_out": cut}))
    else:
        text = _ascii(json.dumps({name: value for name, value in shown.items() if name not in _LONG}))
    return text[:most]


def _ascii(line: bytes) -> bytes:
    """Return JSON without a byte above 127: then a message needs no mark of its encoding (RFC 5424, 6.4)."""
    if line.isascii():
        return line
    import json as standard

    return standard.dumps(standard.loads(line), separators=(",", ":")).encode()


def _time(moment: str) -> str:
    return moment.replace("+00:00", "Z") if moment[:4].isdigit() else "-"


def _host() -> str:
    return "".join(letter for letter in socket.gethostname() if "!" <= letter <= "~")[:255] or "-"
