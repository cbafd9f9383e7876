"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

REQUESTS: Mapping[str, Json] = {}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "EmbeddingModel": {
        "provider": "openai",
        "model": "text-embedding-3-small",
        "dimensions": 384,
        "timeout_seconds": 0.8,
        "tools": 412,
        "tools_with_vectors": 412,
        "vectors": 1280,
        "tokens": 61800,
        "cost_millionths": 1236,
        "failure": "",
        "failed_at": None,
    }
}
