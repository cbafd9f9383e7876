"""JSON in and out of REST, by the hub's one strict decoder and encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from sessions_app.protocol import json
from sessions_app.protocol.errors import PayloadTooLarge
from sessions_app.protocol.json import Json


class JSONParser(BaseParser):
    """Strict JSON up to the limit max_body_bytes."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, object] | None = None
    ) -> Json:
        limit = settings.MCPHUB_MAX_BODY_BYTES
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise PayloadTooLarge(f"The body is larger than {limit} bytes. Send less.", limit_bytes=limit)
        json.refuse_many(raw)
        return json.loads(raw)


class JSONRenderer(BaseRenderer):
    """Writes stored values including lone surrogates, which the stock renderer cannot encode."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: object, accepted_media_type: str | None = None, renderer_context: Mapping[str, object] | None = None
    ) -> bytes:
        return b"" if data is None else json.dumps(data)


class AnyAccept(BaseContentNegotiation):
    """For streaming responses: whatever Accept contains, errors are JSON."""

    def select_parser(self, request: object, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: object, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type
