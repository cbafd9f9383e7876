"""The filters of calls over REST. A search in bodies requires the permission to read them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django_filters import rest_framework as filters  # type: ignore[import-untyped]
from drf_spectacular.utils import extend_schema_field

from invocations.lists.filters import CALL_FILTERS, BodyHolds
from invocations.lists.jsonpath import LONGEST, PATTERN, parse
from invocations.models import McpToolInvocation
from invocations.rest.serializers import sees_bodies
from sessions_app.kit.rest.filters import FilterSet, parameters
from sessions_app.protocol.errors import Forbidden

_HELP = (
    'A path and the JSON value that stands there: `$.city="Berlin"`, `$.items[0].count=3`. Needs the right to read '
    "bodies. Each body is read for it: give a time or a session too."
)


class _ConditionField(forms.CharField):
    def clean(self, value: object) -> Any:
        text = super().clean(value)
        return parse(text) if text else None


@extend_schema_field({"type": "string", "maxLength": LONGEST, "pattern": f"^{PATTERN}$"})
class ConditionParameter(filters.Filter):  # type: ignore[misc]
    """A condition on a body."""

    field_class = _ConditionField


@parameters.register
def _(declared: BodyHolds) -> dict[str, filters.Filter]:
    return {declared.name: ConditionParameter(field_name=declared.of, strip=False, help_text=_HELP)}


class CallFilters(FilterSet):
    declared = CALL_FILTERS

    class Meta:
        model = McpToolInvocation
        fields: list[str] = []

    def filter_queryset(self, queryset: QuerySet[McpToolInvocation]) -> QuerySet[McpToolInvocation]:
        for each in (demand.of for demand in self.demands()):
            if isinstance(each, BodyHolds) and not sees_bodies(self.request):
                raise Forbidden(
                    f"You may not read bodies, so not search them: leave {each.name} out, or ask an administrator for "
                    "invocations.read_bodies.",
                    permission="invocations.read_bodies",
                )
        return super().filter_queryset(queryset)
