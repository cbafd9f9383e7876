"""The provenance of a release: an in-toto statement v1 with SLSA's predicate, in a DSSE envelope.

Formats: https://in-toto.io/Statement/v1, https://slsa.dev/provenance/v1, https://github.com/secure-systems-lab/dsse.
Pure: knows neither settings nor database.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcphub.features.provenance.minisign import BadSignature, ReleaseKey
from sessions_app.protocol.json import Json

SUFFIX = ".intoto.json"
MAX_BYTES = 2**20
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:mcphub:build:make-release:1"
"""How the files were made; docs/operate/upgrading.md, *Verify a release*, explains its parameters."""
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_LINE_END = "\n"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The facts of a verified statement."""

    files: Mapping[str, str]
    """Name -> SHA-256 in hexadecimal."""
    version: str
    commit: str
    builder: str


def sealed(statement: Json, key: ReleaseKey, sign: Callable[[bytes], bytes]) -> str:
    """Return the envelope of a statement; `sign` is of the private half of `key`."""
    payload = json.dumps(statement, indent=1, sort_keys=True, ensure_ascii=False).encode()
    signature = {"keyid": key.name, "sig": b64encode(sign(_signed(payload))).decode()}
    envelope = {"payloadType": _PAYLOAD_TYPE, "payload": b64encode(payload).decode(), "signatures": [signature]}
    return json.dumps(envelope, indent=1) + _LINE_END


def opened(text: str, key: ReleaseKey) -> Provenance:
    """Return what an envelope says. BadSignature: `key` did not sign it, or it is no provenance of a release."""
    try:
        envelope = json.loads(text)
        payload = b64decode(envelope["payload"], validate=True)
        signatures = [(str(each["keyid"]), b64decode(each["sig"], validate=True)) for each in envelope["signatures"]]
        if envelope["payloadType"] != _PAYLOAD_TYPE:
            raise ValueError
    except (KeyError, TypeError, ValueError, RecursionError, binascii.Error):
        raise BadSignature("is not an in-toto statement in a DSSE envelope") from None
    if not any(len(raw) == 64 and key.verify(raw, _signed(payload)) for _, raw in signatures):
        if key.name not in [name for name, _ in signatures]:
            others = ", ".join(sorted(name[:40] for name, _ in signatures)[:5]) or "no key"
            raise BadSignature(f"is signed with {others!r}, not with {key.name}")
        raise BadSignature("has a signature that does not fit its content")
    return _read(payload)


def _read(payload: bytes) -> Provenance:
    try:
        statement = json.loads(payload)
        predicate = statement["predicate"]
        definition = predicate["buildDefinition"]
        if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
            raise ValueError
        if definition["buildType"] != BUILD_TYPE:
            raise ValueError
        files = {str(each["name"]): str(each["digest"]["sha256"]) for each in statement["subject"]}
        if not files or len(files) != len(statement["subject"]):
            raise ValueError
        source = next(each for each in definition["resolvedDependencies"] if "gitCommit" in each["digest"])
        return Provenance(
            files,
            str(definition["externalParameters"]["version"]),
            str(source["digest"]["gitCommit"]),
            str(predicate["runDetails"]["builder"]["id"]),
        )
    except (KeyError, TypeError, ValueError, StopIteration, RecursionError):
        raise BadSignature("is signed, but not as the provenance of a release of MCP Hub") from None


def _signed(payload: bytes) -> bytes:
    """Return what DSSE signs: the pre-authentication encoding."""
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
