"""The addresses of REST."""

from __future__ import annotations

from rest_framework.routers import SimpleRouter


class RestRouter(SimpleRouter):
    """Every address with and without its last slash, and no redirect, which would drop a body."""

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"
