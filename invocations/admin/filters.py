"""The console's control for a search in bodies: refused without the permission, and recorded."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t

from invocations.lists.filters import SEARCHED_BODIES, BodyHolds
from invocations.lists.jsonpath import Condition, parse
from invocations.rest import reads
from sessions_app.kit.admin.filters import Control, TextControl, control, made
from sessions_app.kit.lists.searching import Search, SearchProblem
from sessions_app.protocol.errors import AuditUnavailable
from sessions_app.protocol.json import Json


class BodyControl(TextControl):
    """One place in a body and the value there."""

    declared: ClassVar[BodyHolds]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        written, body = self.value() or "", self.declared.of
        if not written:
            return queryset
        try:
            condition = parse(written)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return queryset.none()
        refused = _refused(request, [(body, condition)])
        if refused:
            messages.error(request, refused)
            return queryset.none()
        return self.declared.narrow(queryset, condition)


@control.register
def _control(declared: BodyHolds) -> Control:
    return made(BodyControl, declared)


def refuse_bodies(request: HttpRequest, search: Search) -> None:
    """Allow a search in bodies only with the permission, and once it is recorded."""
    looked = [(each.of.of, value) for each in search.demands if isinstance(each.of, BodyHolds) for value in each.values]
    refused = _refused(request, looked) if looked else ""
    if refused:
        token = next(each for each in search.tokens if each.key in SEARCHED_BODIES)
        search.problems.append(SearchProblem(token, refused))


def _refused(request: HttpRequest, looked: list[tuple[str, Condition]]) -> str:
    """Record the search in bodies; return the reason if it is refused, else nothing."""
    if not request.user.has_perm("invocations.read_bodies"):
        return _t("Your account can't read bodies, so it can't search them.")
    query: dict[str, Json] = {}
    for body, condition in looked:
        query[body] = f"{query[body]} {condition.recorded()}" if body in query else condition.recorded()
    try:
        reads.note(request.user, request.path, [], [], searched=sorted(query), query=query)
    except AuditUnavailable as error:
        return str(error)
    return ""


def searches_bodies(request: HttpRequest, search: Search) -> bool:
    is_controlled = any(request.GET.get(name, "").strip() for name in SEARCHED_BODIES)
    return is_controlled or any(isinstance(each.of, BodyHolds) for each in search.demands)
