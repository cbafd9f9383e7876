"""What can be asked of calls, tasks and audit events: the filters of their lists, in the console and over REST.

Each compares exactly, so that an index answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Field, Q
from django.utils.translation import gettext_lazy as _

from invocations.columns import INVOCATION, Column, ColumnFilter, Match
from invocations.lists.erased import is_erased
from invocations.lists.jsonpath import Condition
from invocations.lists.spans import span
from invocations.models import McpToolInvocation
from invocations.tasks.models import McpTask
from sessions_app.kit.lists.filters import (
    Between,
    Choices,
    During,
    ListFilter,
    OneOf,
    Rows,
    TextIs,
    WholeNumber,
    YesOrNo,
)
from sessions_app.protocol.errors import INTERNAL_CODES


class BodyHolds(ListFilter):
    """A condition on one place in a body, the column; it finds what redaction left of the value, too."""

    def compared(self, rows: Rows, value: Condition) -> Rows:
        return rows.filter(value.on(rows.model._meta.db_table, self.of))


class DuringCalls(During):
    """A range of time, as bounds of the sequence too: what is older or newer is then not read."""

    def compared(self, rows: Rows, value: tuple[datetime | None, datetime | None]) -> Rows:
        where = span(*value)
        return rows.none() if where is None else where.of(super().compared(rows, value))


class PresentText(TextIs):
    """The whole text of a column with a partial index, whose condition is that there is a text."""

    def compared(self, rows: Rows, value: str) -> Rows:
        return super().compared(rows, value).exclude(**{self.of: ""})


def _declared(column: Column, each: ColumnFilter, **console: object) -> ListFilter:
    """Give the filter that a column declares; `console` is what the console's control adds."""
    kind: type[ListFilter] = _KINDS[each.match]
    more: dict[str, Any] = dict(console)
    if kind is TextIs and each.skips_blank:
        kind = PresentText
    if kind is OneOf:
        more["choices"] = _choices(column)
    if kind is WholeNumber:
        more["least"] = each.least
    return kind(name=each.parameter, column=column.name, help_text=each.help, narrowed=_narrowed(column, each), **more)


_KINDS: dict[Match, type[ListFilter]] = {
    Match.EXACT: TextIs,
    Match.CHOICE: OneOf,
    Match.NUMBER: WholeNumber,
    Match.TRUTH: YesOrNo,
    Match.PRESENT: YesOrNo,
    Match.LEFT_OUT: YesOrNo,
    Match.IS_VALUE: YesOrNo,
    Match.DURING: DuringCalls,
    Match.BETWEEN: Between,
    Match.AT_LEAST: WholeNumber,
    Match.REQUEST_ID: TextIs,
    Match.PLACE: BodyHolds,
}


def _narrowed(column: Column, each: ColumnFilter) -> Callable[[Rows, Any], Rows] | None:
    """Give what the filter asks of the rows, where that is not the usual comparison of its kind."""
    name = column.name
    # The partial index's own condition stands in the query too, or the index is not used.
    implied = dict(each.implies or {})
    match each.match:
        case Match.PRESENT:
            absent = Q(**{f"{name}__isnull": True}) if column.is_optional else Q(**{name: ""})
            present = Q(**{f"{name}__isnull": False}) if column.is_optional else ~absent
            return lambda rows, is_wanted: rows.filter(present if is_wanted else absent)
        case Match.LEFT_OUT:
            partly = Q(**{f"{name}__isnull": False}) | Q(is_erased())
            return lambda rows, is_wanted: rows.filter(partly if is_wanted else ~partly)
        case Match.IS_VALUE:
            held = Q(**{name: each.value})
            return lambda rows, is_wanted: rows.filter(held & Q(**implied) if is_wanted else ~held)
        case Match.AT_LEAST:
            return lambda rows, least: rows.filter(**{f"{name}__gte": least})
        case Match.CHOICE if column.null_is:
            absent = Q(**{f"{name}__isnull": True})
            return lambda rows, word: rows.filter(absent if word == column.null_is else Q(**{name: word}))
        case Match.REQUEST_ID:
            return lambda rows, text: rows.filter(**{f"{name}__in": _request_ids(text)})
        case _ if implied:
            return lambda rows, value: rows.filter(**{name: value}, **implied)
    return None


def _request_ids(text: str) -> list[str | int]:
    ids: list[str | int] = [text]
    if text.removeprefix("-").isdecimal() and len(text) <= 20 and str(int(text)) == text:
        ids.append(int(text))
    return ids


def _choices(column: Column) -> Choices:
    """Give the words that a column may hold."""
    if column.name == "error_code":
        return [(code, code) for code in sorted(INTERNAL_CODES)]
    field = McpToolInvocation._meta.get_field(column.name)
    assert isinstance(field, Field)
    return [(str(word), label) for word, label in field.flatchoices]


_CONSOLE: dict[str, dict[str, Any]] = {
    "started": {"label": ""},
    "status": {"label": "", "facet": _("Status")},
    "tool": {"label": _("tool (exact name)"), "facet": _("Tool")},
    "method": {"label": "", "parameter": "method"},
    "target": {"label": _("resource or prompt (exact)"), "parameter": "target"},
    "asked_by": {"label": _("asked by the call"), "parameter": "asked_by"},
    "version": {"label": _("version of the tool"), "facet": _("Version of the tool")},
    "client": {"label": _("client (exact name)"), "parameter": "client", "facet": _("Client")},
    "client_version": {"label": _("version of the client")},
    "principal": {"label": _("principal (key:1, user:1, …)"), "facet": _("Caller")},
    "allowed_client": {"label": _("allowed client (exact)"), "facet": _("Allowed client")},
    "session": {"label": _("session id"), "parameter": "session"},
    "error_code": {"label": _("error code"), "parameter": "code", "facet": _("Error code")},
    "retryable": {
        "label": _("may be tried again"),
        "parameter": "retry",
        "yes": _("Failures to be tried again"),
        "no": _("Failures not to be tried again"),
    },
    "duration_ms": {"label": ""},
    "connection": {"label": _("connection (short name)"), "facet": _("Connection")},
    "policy_rule": {"label": _("rule about calls (exact name)"), "facet": _("Rule about calls")},
    "chat": {},
    "turn": {"label": _("turn of a chat")},
    "arguments": {"label": _('argument, such as $.city="Berlin"')},
    "result": {"label": _("result, such as $.structuredContent.count=3")},
    "transport": {"label": "", "facet": _("Transport")},
    "duplicate": {
        "label": _("duplicates"),
        "parameter": "duplicate",
        "yes": _("Only duplicates"),
        "no": _("Without duplicates"),
    },
    "interrupted": {
        "label": _("interrupted"),
        "parameter": "interrupted",
        "yes": _("Only calls whose process died"),
        "no": _("Without calls whose process died"),
    },
}
"""Filter -> what the console adds to its declaration, in the order of the controls; the others are for REST alone."""
_MADE_IN_A_CHAT = YesOrNo(
    name="chat",
    label=_("made in a chat"),
    parameter="chat",
    yes=_("Only calls that a model made"),
    no=_("Without calls that a model made"),
    narrowed=lambda rows, is_wanted: rows.filter(turn_id__isnull=not is_wanted),
    over_rest=False,
)
_OF_CALLS = {
    each.parameter: _declared(column, each, **_CONSOLE.get(each.parameter, {})) for column, each in INVOCATION.filters
}
CALL_FILTERS: tuple[ListFilter, ...] = (
    *(_OF_CALLS.get(name, _MADE_IN_A_CHAT) for name in _CONSOLE),
    *(each for name, each in _OF_CALLS.items() if name not in _CONSOLE),
)
SEARCHED_BODIES = tuple(each.name for each in CALL_FILTERS if isinstance(each, BodyHolds))
"""Parameters that look for a value inside of bodies."""
FACETS = {each.name: each for each in CALL_FILTERS if each.facet}
"""Filters whose values are counted."""

TASK_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=McpTask.State.choices),
    During(name="created", column="created_at", label="", over_rest=False),
    TextIs(name="tool", column="tool_name", label=_("tool (exact name)")),
    TextIs(name="principal", label=_("principal (key:1, user:1, …)"), help_text=_OF_CALLS["principal"].help_text),
    TextIs(name="session", column="session_id", label=_("session id"), parameter="session"),
    TextIs(name="invocation_id"),
)

_SUBJECTS: Choices = [
    ("tool", _("tools")),
    ("resource", _("resources")),
    ("prompt", _("prompts")),
    ("mcptoolset", _("toolsets")),
    ("httpservice", _("services")),
    ("mcpconnection", _("connections")),
    ("mcpupstreamtool", _("upstream offers")),
    ("launchprofile", _("launch profiles")),
    ("secret", _("secrets")),
    ("key", _("API keys")),
    ("error_mapping", _("error mappings")),
    ("redaction_rule", _("redaction rules")),
    ("retention_policy", _("retention")),
    ("legal_hold", _("legal holds")),
    ("chatprovider", _("providers")),
    ("chatmodel", _("models")),
    ("chatkey", _("chat settings of keys")),
    ("toolapproval", _("approval policies")),
    ("user", _("users")),
    ("group", _("groups")),
    ("audit", _("the audit")),
    ("bodies", _("what was read")),
]


def _about(rows: Rows, subject: str) -> Rows:
    # A range of the index by kind: all that begins with the word and a full stop.
    return rows.filter(kind__gt=f"{subject}.", kind__lt=f"{subject}/")


def _of_row(rows: Rows, subject: str) -> Rows:
    model, _colon, row_id = subject.partition(":")
    return rows.filter(subject_model=model, subject_id=row_id)


EVENT_FILTERS: tuple[ListFilter, ...] = (
    OneOf(
        name="about",
        label=_("what was changed"),
        choices=_SUBJECTS,
        narrowed=_about,
        over_rest=False,
        column="kind",
        parameter="about",
    ),
    TextIs(
        name="actor",
        label=_("by (user:1, key:1, machine, hub)"),
        help_text="`user:<id>`, `key:<id>`, `machine` or `hub`.",
    ),
    During(name="happened", column="happened_at", label=""),
    TextIs(name="kind", help_text="`tool.changed`, `key.created`, `user.changed`, `audit.exported` and so on."),
    TextIs(
        name="subject",
        narrowed=_of_row,
        help_text="The history of one row: `<subject_model>:<subject_id>`, as events have them.",
    ),
)
CHECKPOINT_FILTERS: tuple[ListFilter, ...] = (During(name="sealed", column="sealed_at"),)
