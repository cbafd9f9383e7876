"""Each REST request has an ID, which appears in its log lines and, if it fails, in the header `X-Request-Id`."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from mcphub.process import logs

logger = logging.getLogger(__name__)


@sync_and_async_middleware
def correlated(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def serve_async(request: HttpRequest) -> HttpResponseBase:
            with _numbered(request) as number:
                answered: Awaitable[HttpResponseBase] = get_response(request)
                return _marked(request, await answered, number)

        return serve_async

    def serve(request: HttpRequest) -> HttpResponseBase:
        with _numbered(request) as number:
            response: HttpResponseBase = get_response(request)
            return _marked(request, response, number)

    return serve


@contextlib.contextmanager
def _numbered(request: HttpRequest) -> Iterator[str]:
    number = uuid.uuid4().hex if request.path_info.startswith("/api/") else ""
    token = logs.correlation_id.set(number)
    try:
        yield number
    finally:
        logs.correlation_id.reset(token)


def _marked(request: HttpRequest, response: HttpResponseBase, number: str) -> HttpResponseBase:
    if number and response.status_code >= 400:
        response.headers["X-Request-Id"] = number
        logger.info("REST answered an error", extra={"status": response.status_code, "method": request.method})
    return response
