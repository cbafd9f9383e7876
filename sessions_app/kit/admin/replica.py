"""Pages over the audit that read on the replica for auditors, where there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest
from django.template.response import TemplateResponse

from sessions_app.kit import replica
from sessions_app.kit.admin.base import UncountedAdmin


class ReplicaPages(UncountedAdmin):
    """Reads list and page of a row on the replica, templates included. Submissions are processed where they always
    are.
    """

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> Any:
        return _read(request, lambda more: super(ReplicaPages, self).changelist_view(request, more), extra_context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, object] | None = None
    ) -> Any:
        return _read(
            request,
            lambda more: super(ReplicaPages, self).change_view(request, object_id, form_url, more),
            extra_context,
        )


def _read(
    request: HttpRequest, view: Callable[[dict[str, object]], Any], extra_context: dict[str, object] | None
) -> Any:
    if request.method not in ("GET", "HEAD") or not replica.is_set_up():
        return view(extra_context or {})
    with replica.reading():
        answer = view({**(extra_context or {}), "as_of": _as_of()})
        return answer.render() if isinstance(answer, TemplateResponse) else answer


def _as_of() -> datetime | None:
    with contextlib.suppress(DatabaseError):
        return replica.as_of()
    return None
