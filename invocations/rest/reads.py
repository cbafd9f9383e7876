"""Reads and searches of bodies over REST, as events in the audit: no record, no bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from django.contrib.auth.models import AnonymousUser, User
from django.db import DatabaseError, models, transaction
from rest_framework import mixins
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.lists.jsonpath import parse
from sessions_app.history import events
from sessions_app.history.events import actor_of
from sessions_app.kit.rest.writing import RowViewSet
from sessions_app.protocol.errors import AuditUnavailable
from sessions_app.protocol.json import Json

_Model = TypeVar("_Model", bound=models.Model)


def record(
    request: Request, *, read: list[str], searched: list[str], rows: Sequence[int | str], subject: str = ""
) -> None:
    """Append an event `bodies.read`: the bodies, their rows, and the query.

    Raises AuditUnavailable where it cannot be written.
    """
    query: dict[str, Json] = {
        name: values if len(values) > 1 else values[0] for name, values in request.query_params.lists()
    }
    for name in searched:
        query[name] = parse(query[name]).recorded()
    note(request.user, request.path, read, rows, subject, searched=searched, query=query)


def note(
    user: User | AnonymousUser,
    where: str,
    read: list[str],
    rows: Sequence[int | str],
    subject: str = "",
    *,
    searched: Sequence[str] = (),
    query: dict[str, Json] | None = None,
) -> None:
    """Append the event for whoever reads bodies `where` that is, in the admin too."""
    after = {"bodies": read, "searched": list(searched), "rows": rows, "query": query or {}}
    try:
        with transaction.atomic():
            events.record("bodies.read", actor=actor_of(user), subject=subject, label=where, after=after)
    except DatabaseError as error:
        raise AuditUnavailable(
            "Reading bodies must be recorded, and that failed, so none are shown. Try again, or name members without "
            "bodies in `fields`."
        ) from error


class RecordedViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[_Model], Generic[_Model]):
    """Rows with bodies, read-only. Whoever is answered bodies, or searched them, is on record."""

    _page: list[_Model]

    def bodies_read(self) -> list[str]:
        """Name the bodies that the answer to this request holds."""
        raise NotImplementedError

    def bodies_searched(self) -> list[str]:
        return []

    def paginate_queryset(self, queryset: Any) -> Any:
        self._page = super().paginate_queryset(queryset)  # type: ignore[assignment]  # pages are lists here
        return self._page

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        answer = super().list(request, *args, **kwargs)
        self._record([row.pk for row in self._page])
        return answer

    def retrieve(self, request: Request, *args: object, **kwargs: object) -> Response:
        answer = super().retrieve(request, *args, **kwargs)
        self._record([answer.data["sequence"]], subject=self.kwargs[self.lookup_field])
        return answer

    def _record(self, rows: Sequence[int | str], subject: str = "") -> None:
        read, searched = self.bodies_read() if rows else [], self.bodies_searched()
        if read or searched:
            record(self.request, read=read, searched=searched, rows=rows, subject=subject)
