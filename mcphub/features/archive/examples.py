"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

_HASH = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456"

REQUESTS: Mapping[str, Json] = {}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "ArchivedCall": {
        "request_id": 4,
        "arguments": {"city": 7},
        "status": "error",
        "result": None,
        "error": {
            "code": -32602,
            "message": "city: 7 is not of type 'string'.",
            "data": {"errorCode": "invalid_arguments"},
        },
        "error_code": "invalid_arguments",
        "jsonrpc_code": -32602,
        "retryable": False,
        "duplicate_of": "",
        "session_id": "kB3xw1qTzM5s",
    },
    "ArchivePlace": {
        "month": "2026-10",
        "file": "part-000000001001-000000001042.parquet",
        "position": 20917,
        "leaf": _HASH,
    },
    "ArchiveRead": {"months": ["2026-10"], "files": 1, "bytes": 4_194_304, "is_cut": False},
    "ArchivePage": {"next": None},
}
