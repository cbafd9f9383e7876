"""Pages of lists over REST: the keyset's, as cursors name them."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from django.core.exceptions import ValidationError as Invalid
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from sessions_app.kit.lists.keyset import Key, Keyset, Order, written
from sessions_app.kit.lists.walking import WalkedKeyset
from sessions_app.kit.rest.errors import NoSuchPage
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json


class KeysetPagination(BasePagination):
    """Pages along the view's `ordering`, which ends in a unique column.

    A cursor names the row where a page begins, so rows that arrive meanwhile neither repeat nor hide others,
    and nothing is counted.
    """

    PARAMETERS = ("cursor", "limit")
    DEFAULT_LIMIT = 50
    HIGHEST_LIMIT = 500
    keyset: type[Keyset[Any]] = Keyset
    """Reads the pages, within bounds."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._request = request
        order = Order(queryset.model, tuple(view.ordering))
        limit = limit_of(request, self.DEFAULT_LIMIT, self.HIGHEST_LIMIT)
        backwards, begin = _cursor(request, order)
        page = self.keyset(queryset, order, limit).page(begin, backwards=backwards)
        onward = page.onward or page.reached
        self._next, self._previous = (page.back, onward) if backwards else (onward, page.back)
        return page.rows

    def get_paginated_response(self, data: object) -> Response:
        return Response(
            {"next": self._url(self._next, "n"), "previous": self._url(self._previous, "p"), "results": data}
        )

    def _url(self, key: Key | None, direction: str) -> str | None:
        if key is None:
            return None
        word = base64.urlsafe_b64encode(json.dumps([direction, *written(key)])).decode()
        return replace_query_param(self._request.build_absolute_uri(), "cursor", word)

    def get_paginated_response_schema(self, schema: dict[str, Json]) -> dict[str, object]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, object]]:
        return [
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "schema": {"type": "string"},
                "description": "Where the page begins: taken from `next` or `previous` of an answer.",
            },
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "description": "Rows on a page.",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": self.HIGHEST_LIMIT,
                    "default": self.DEFAULT_LIMIT,
                },
            },
        ]


WALKED = (
    "A search that would take long ends early: a page may hold fewer rows than `limit`, or none. Where `next` is not "
    "null, follow it: there may be more."
)
"""The OpenAPI description of a list paged by `WalkedPagination`."""


class WalkedPagination(KeysetPagination):
    keyset = WalkedKeyset


def limit_of(request: Request, default: int, highest: int) -> int:
    """Return the request's `limit`, from 1 to `highest`, or raise ValidationError."""
    word = request.query_params.get("limit", str(default))
    if word.isascii() and word.isdecimal() and len(word) < 10 and 1 <= int(word) <= highest:
        return int(word)
    raise ValidationError({"limit": [f"Write a whole number from 1 to {highest}."]})


def _cursor(request: Request, order: Order[Any]) -> tuple[bool, Key | None]:
    """Return whether the page is read backwards, and the key beside which it begins; raise NoSuchPage."""
    word = request.query_params.get("cursor")
    if word is None:
        return False, None
    try:
        direction, *words = json.loads(base64.b64decode(word.encode(), altchars=b"-_", validate=True))
        key = order.read(words)
        if direction not in ("n", "p") or written(key) != words:  # not what the hub has written
            raise ValueError
    except (ValueError, TypeError, OverflowError, binascii.Error, Invalid, ParseError) as error:
        raise NoSuchPage from error
    return direction == "p", key
