"""The console's control for a search in bodies: refused to who may not read them, and on record."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from invocations.lists.filters import SEARCHED_BODIES, BodyHolds
from invocations.lists.jsonpath import parse
from invocations.rest import reads
from sessions_app.kit.admin.filters import Control, TextControl, control, made
from sessions_app.protocol.errors import AuditUnavailable


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
        if not request.user.has_perm("invocations.read_bodies"):
            messages.error(request, _("Your account may not read bodies, so it may not search them."))
            return queryset.none()
        try:
            reads.note(request.user, request.path, [], [], searched=[body], query={body: condition.recorded()})
        except AuditUnavailable as error:
            messages.error(request, str(error))
            return queryset.none()
        return self.declared.narrow(queryset, condition)


@control.register
def _control(declared: BodyHolds) -> Control:
    return made(BodyControl, declared)


def searches_bodies(request: HttpRequest) -> bool:
    return any(request.GET.get(name, "").strip() for name in SEARCHED_BODIES)
