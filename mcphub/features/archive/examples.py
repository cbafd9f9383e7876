"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.examples import FAILED_CALL
from sessions_app.protocol.json import Json

_HASH = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456"

REQUESTS: Mapping[str, Json] = {}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "ArchivedCall": FAILED_CALL,
    "ArchivePlace": {
        "month": "2026-10",
        "file": "part-000000001001-000000001042.parquet",
        "position": 20917,
        "leaf": _HASH,
    },
    "ArchiveRead": {"months": ["2026-10"], "files": 1, "bytes": 4_194_304, "is_cut": False},
    "ArchivePage": {"next": None},
}
