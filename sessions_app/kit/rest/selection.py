"""`fields=`: an answer with the named members only."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

NAME = "fields"


def parameter(known: list[str]) -> OpenApiParameter:
    """Describe the selectable members of `known` in the schema."""
    one = f"({'|'.join(known)})"
    return OpenApiParameter(
        NAME,
        {"type": "string", "pattern": f"^{one}(,{one})*$"},
        description="Names of members, separated by commas: only these are answered. Absent: all.",
    )


def chosen(request: Request, known: list[str]) -> list[str]:
    """Return the members that the request names, in the order of `known`; all where it names none.

    Raises ValidationError for a name that is not known.
    """
    words = request.query_params.get(NAME)
    if words is None:
        return known
    named = words.split(",")
    strange = sorted({name for name in named if name not in known})
    if strange:
        told = ", ".join(repr(name[:60]) for name in strange[:5])
        raise ValidationError({NAME: [f"No such member: {told}. Members here: {', '.join(known)}."]})
    return [name for name in known if name in named]


class Selectable:
    """A serializer with an optional context `fields`: the members to return."""

    context: dict[str, Any]
    may_leave_out = True
    """Read by the schema: no member is promised."""

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()  # type: ignore[misc]  # of the serializer beside this class
        names = self.context.get("fields")
        return fields if names is None else {name: fields[name] for name in names}
