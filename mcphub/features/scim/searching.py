"""From a filter of RFC 7644 (section 3.4.2.2) to a condition over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from scim2_models import InvalidFilterException
from scim2_models.path import (
    AttrPath,
    CompareOperator,
    Comparison,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)
from scim2_models.path import FilterNode as Node

from mcphub.features.scim.resources import WORK

LONGEST_FILTER = 1000
_EVERY, _NONE = ~Q(pk__in=[]), Q(pk__in=[])
_LARGEST_ID = 2**31 - 1
_LOOKUPS = {
    CompareOperator.eq: "exact",
    CompareOperator.co: "contains",
    CompareOperator.sw: "startswith",
    CompareOperator.ew: "endswith",
    CompareOperator.gt: "gt",
    CompareOperator.ge: "gte",
    CompareOperator.lt: "lt",
    CompareOperator.le: "lte",
}

Compared = Callable[[CompareOperator, Any], Q]


@dataclass(frozen=True, slots=True)
class _Column:
    compared: Compared
    present: Q


def _text(path: str, *, is_exact: bool = False, is_nullable: bool = False) -> _Column:
    present = ~Q(**{path: ""}) & (~Q(**{path: None}) if is_nullable else Q())

    def compared(operator: CompareOperator, value: Any) -> Q:
        if value is None:
            return ~present if operator is CompareOperator.eq else _NONE
        if not isinstance(value, str) or not value.isprintable():
            return _NONE
        lookup = _LOOKUPS[operator]
        is_loose = not is_exact and lookup in ("exact", "contains", "startswith", "endswith")
        return Q(**{f"{path}__{'i' if is_loose else ''}{lookup}": value})

    return _Column(compared, present)


def _number(path: str) -> _Column:
    def compared(operator: CompareOperator, value: Any) -> Q:
        is_id = isinstance(value, str) and value.isascii() and value.isdecimal() and int(value[:20]) <= _LARGEST_ID
        if operator is not CompareOperator.eq:
            raise InvalidFilterException(detail="An id is compared with `eq` or `ne`.")
        return Q(**{path: int(value)}) if is_id else _NONE

    return _Column(compared, Q(**{f"{path}__isnull": False}))


def _flag(path: str) -> _Column:
    return _Column(lambda operator, value: Q(**{path: value}) if isinstance(value, bool) else _NONE, _EVERY)


def _moment(path: str) -> _Column:
    def compared(operator: CompareOperator, value: Any) -> Q:
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            return Q(**{f"{path}__{_LOOKUPS[operator]}": moment}) if moment.tzinfo else _NONE
        except (ValueError, OverflowError):
            return _NONE

    return _Column(compared, _EVERY)


def _always(value: Any, present: Q) -> _Column:
    """An attribute with one value on every row."""
    return _Column(lambda operator, asked: present if asked == value else _NONE, present)


_HAS_ADDRESS = ~Q(email="")
PEOPLE: Mapping[str, _Column] = {
    "id": _number("pk"),
    "externalid": _text("provisioned__external_id", is_exact=True, is_nullable=True),
    "username": _text("username"),
    "name.familyname": _text("last_name"),
    "name.givenname": _text("first_name"),
    "active": _flag("is_active"),
    "emails": _text("email"),
    "emails.value": _text("email"),
    "emails.type": _always(WORK, _HAS_ADDRESS),
    "emails.primary": _always(True, _HAS_ADDRESS),
    "meta.created": _moment("date_joined"),
}
GROUPS: Mapping[str, _Column] = {
    "id": _number("pk"),
    "externalid": _text("provisioned__external_id", is_exact=True, is_nullable=True),
    "displayname": _text("name"),
    "members": _number("user"),
    "members.value": _number("user"),
}


class _Condition(FilterVisitor[Q]):
    def __init__(self, columns: Mapping[str, _Column], within: str = "") -> None:
        self._columns, self._within = columns, within

    def visit_comparison(self, node: Comparison) -> Q:
        column = self._column(node.attr_path)
        if node.op is CompareOperator.ne:
            return ~column.compared(CompareOperator.eq, node.value)
        return column.compared(node.op, node.value)

    def visit_present(self, node: Present) -> Q:
        return self._column(node.attr_path).present

    def visit_not(self, node: Not) -> Q:
        return ~self.visit(node.expr)

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        found = Q()
        for term in node.terms:
            each = self.visit(term)
            found = found & each if node.op is LogicalOperator.and_ else found | each
        return found

    def visit_value_path(self, node: ValuePath) -> Q:
        return _Condition(self._columns, f"{node.attr_path.attr}.").visit(node.val_filter)

    def _column(self, path: AttrPath) -> _Column:
        name = f"{self._within}{path.attr}" + (f".{path.sub_attr}" if path.sub_attr else "")
        column = self._columns.get(name.lower())
        if column is None:
            known = ", ".join(self._columns)
            raise InvalidFilterException(detail=f"The hub does not filter by {name[:60]}. It does by {known}.")
        return column


def condition(columns: Mapping[str, _Column], tree: Node) -> Q:
    """Return the rows that a filter means; raise InvalidFilterException."""
    try:
        return _Condition(columns).visit(tree)
    except RecursionError as error:
        raise InvalidFilterException(detail="The filter is nested too deeply.") from error
