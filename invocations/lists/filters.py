"""The filters of lists of calls, tasks and audit events, in the console and over REST.

Each compares exactly, so that an index answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Field, Q
from django.utils.translation import gettext_lazy as _

from invocations.columns import INVOCATION, Column, ColumnFilter, Match
from invocations.lists import completing
from invocations.lists.erased import is_erased
from invocations.lists.jsonpath import Condition, parse
from invocations.lists.spans import span
from invocations.models import McpToolInvocation
from invocations.parts import EventSubject
from invocations.tasks.models import McpTask
from sessions_app.keys import naming
from sessions_app.kit.features import declared
from sessions_app.kit.lists.filters import Between, Choices, During, ListFilter, OneOf, TextIs, WholeNumber, YesOrNo
from sessions_app.kit.lists.searching import WrongValue, value_of
from sessions_app.protocol.errors import INTERNAL_CODES


class BodyHolds(ListFilter):
    """A condition on one location in a body, the column; it also matches the tags left by redaction."""

    def compared(self, value: Condition) -> Q:
        return Q(value.on(McpToolInvocation._meta.db_table, self.of))


@value_of.register
def _condition(of: BodyHolds, text: str) -> Condition:
    try:
        return parse(text)
    except ValidationError as error:
        raise WrongValue(" ".join(error.messages)) from error


class DuringCalls(During):
    """A time range, also as bounds of the sequence: older and newer rows are then not read."""

    def compared(self, value: tuple[datetime | None, datetime | None]) -> Q:
        where = span(*value)
        return Q(id__lt=1) if where is None else super().compared(value) & where.bounds


class PresentText(TextIs):
    """The whole text of a column with a partial index, whose condition is a non-empty text."""

    def compared(self, value: str) -> Q:
        return super().compared(value) & self._is_present

    def one_of(self, values: Sequence[str]) -> Q:
        return super().one_of(values) & self._is_present

    @property
    def _is_present(self) -> Q:
        return ~Q(**{self.of: ""})


def _declared(column: Column, each: ColumnFilter, **console: object) -> ListFilter:
    """Return the filter that a column declares; `console` holds the console's additions."""
    kind: type[ListFilter] = _KINDS[each.match]
    more: dict[str, Any] = dict(console)
    if column.name == "principal":
        kind = naming.CallerIs
    if kind is TextIs and each.skips_blank:
        kind = PresentText
    if kind is OneOf:
        more["choices"] = _choices(column)
    if kind is WholeNumber:
        more["least"] = each.least
    return kind(name=each.parameter, column=column.name, help_text=each.help, meant=_meant(column, each), **more)


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


def _meant(column: Column, each: ColumnFilter) -> Callable[[Any], Q] | None:
    """Return the filter's condition on a row, if it is not its kind's usual comparison."""
    name = column.name
    # The partial index's own condition stands in the query too, or the index is not used.
    implied = dict(each.implies or {})
    match each.match:
        case Match.PRESENT:
            absent = Q(**{f"{name}__isnull": True}) if column.is_optional else Q(**{name: ""})
            present = Q(**{f"{name}__isnull": False}) if column.is_optional else ~absent
            return lambda is_wanted: present if is_wanted else absent
        case Match.LEFT_OUT:
            partly = Q(**{f"{name}__isnull": False}) | Q(is_erased())
            return lambda is_wanted: partly if is_wanted else ~partly
        case Match.IS_VALUE:
            held = Q(**{name: each.value})
            return lambda is_wanted: held & Q(**implied) if is_wanted else ~held
        case Match.AT_LEAST:
            return lambda least: Q(**{f"{name}__gte": least})
        case Match.CHOICE if column.null_is:
            absent = Q(**{f"{name}__isnull": True})
            return lambda word: absent if word == column.null_is else Q(**{name: word})
        case Match.REQUEST_ID:
            return lambda text: Q(**{f"{name}__in": _request_ids(text)})
        case _ if implied:
            return lambda value: Q(**{name: value}, **implied)
    return None


def _request_ids(text: str) -> list[str | int]:
    ids: list[str | int] = [text]
    if text.removeprefix("-").isdecimal() and len(text) <= 20 and str(int(text)) == text:
        ids.append(int(text))
    return ids


def _choices(column: Column) -> Choices:
    """Return the words that a column may hold."""
    if column.name == "error_code":
        return [(code, code) for code in sorted(INTERNAL_CODES)]
    field = McpToolInvocation._meta.get_field(column.name)
    assert isinstance(field, Field)
    return [(str(word), label) for word, label in field.flatchoices]


_CONSOLE: dict[str, dict[str, Any]] = {
    "started": {"label": "", "key": "time"},
    "status": {"label": "", "facet": _("Status")},
    "tool": {"label": _("tool (exact name)"), "facet": _("Tool"), "known": completing.tools},
    "method": {"label": "", "parameter": "method"},
    "target": {"label": _("resource or prompt (exact)"), "parameter": "target"},
    "called_by": {"label": _("called by the call"), "parameter": "called_by"},
    "asked_by": {"label": _("asked by the call"), "parameter": "asked_by"},
    "version": {"label": _("version of the tool"), "facet": _("Version of the tool")},
    "client": {
        "label": _("client (exact name)"),
        "parameter": "client",
        "facet": _("Client"),
        "known": completing.clients,
    },
    "client_version": {"label": _("version of the client")},
    "principal": {
        "label": _("caller (a name, key:1, user:1, …)"),
        "facet": _("Caller"),
        "key": "caller",
        "known": naming.callers,
    },
    "allowed_client": {"label": _("authorized app (exact)"), "facet": _("Authorized app")},
    "session": {"label": _("session ID"), "parameter": "session"},
    "error_code": {"label": _("error code"), "parameter": "code", "facet": _("Error code"), "key": "code"},
    "retryable": {
        "label": _("safe to retry"),
        "key": "retry",
        "parameter": "retry",
        "yes": _("Failures that are safe to retry"),
        "no": _("Failures that are not safe to retry"),
    },
    "duration_ms": {"label": "", "key": "took"},
    "connection": {"label": _("connection (short name)"), "facet": _("Connection"), "known": completing.connections},
    "policy_rule": {
        "label": _("call rule (exact name)"),
        "facet": _("Call rule"),
        "key": "rule",
        "known": completing.rules,
    },
    "guardrails": {
        "label": _("guardrails"),
        "parameter": "guardrails",
        "yes": _("Only calls in which a guardrail acted"),
        "no": _("Without calls in which a guardrail acted"),
    },
    "chat": {},
    "turn": {"label": _("chat turn")},
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
        "yes": _("Only calls with a dead process"),
        "no": _("Without calls with a dead process"),
    },
}
"""Filter -> the console's additions to its declaration, in the order of the controls; the others are for REST alone."""
_MADE_IN_A_CHAT = YesOrNo(
    name="chat",
    label=_("made in a chat"),
    parameter="chat",
    yes=_("Only calls by a model"),
    no=_("Without calls by a model"),
    meant=lambda is_wanted: Q(turn_id__isnull=not is_wanted),
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
"""Filters with counted values."""

TASK_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=McpTask.State.choices),
    During(name="created", column="created_at", label="", key="time", over_rest=False),
    TextIs(name="tool", column="tool_name", label=_("tool (exact name)")),
    TextIs(name="principal", label=_("principal (key:1, user:1, …)"), help_text=_OF_CALLS["principal"].help_text),
    TextIs(name="session", column="session_id", label=_("session ID"), parameter="session"),
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
    ("user", _("users")),
    ("group", _("groups")),
    ("login", _("logins")),
    ("session", _("sessions")),
    ("hub", _("the hub")),
    ("audit", _("the audit")),
    ("bodies", _("reads")),
]


def _subjects() -> Choices:
    return [*_SUBJECTS, *((part.name, part.title) for part in declared(EventSubject))]


def _about(subject: str) -> Q:
    # A range of the index by kind: all that begins with the word and a full stop.
    return Q(kind__gt=f"{subject}.", kind__lt=f"{subject}/")


_VIA: Choices = [
    ("admin", _("the console")),
    ("rest", _("REST")),
    ("cli", _("the command line")),
    ("bundle", _("a bundle")),
    ("system", _("the hub itself")),
]
_SAID = ("subject_label", "actor_label", "reason", "actor", "subject_id")
"""Columns of an event that a text is sought in."""


def told_of(text: str) -> Q:
    """Return the events with the text in subject, person or reason, ignoring case."""
    return reduce(or_, [Q(**{f"{column}__icontains": text}) for column in _SAID])


def _of_row(subject: str) -> Q:
    model, _colon, row_id = subject.partition(":")
    return Q(subject_model=model, subject_id=row_id)


EVENT_FILTERS: tuple[ListFilter, ...] = (
    OneOf(
        name="about",
        label=_("what was changed"),
        facet=_("What was changed"),
        choices=_subjects,
        meant=_about,
        column="kind",
        parameter="about",
        help_text="What was changed: the word that the kinds of its events begin with.",
    ),
    TextIs(
        name="actor",
        label=_("by (user:1, key:1, machine, hub)"),
        facet=_("By"),
        key="by",
        help_text="`user:<id>`, `key:<id>`, `machine` or `hub`.",
    ),
    OneOf(name="via", label=_("source"), choices=_VIA, parameter="via"),
    During(name="happened", column="happened_at", label="", key="time"),
    TextIs(name="kind", help_text="`tool.changed`, `key.created`, `user.changed`, `audit.exported` and so on."),
    TextIs(
        name="subject",
        meant=_of_row,
        help_text="The history of one row: `<subject_model>:<subject_id>`, as events have them.",
    ),
    TextIs(
        name="text",
        meant=told_of,
        help_text="Stands in the name of what was changed, in that of who did it, or in the reason; in any case.",
    ),
)
CHECKPOINT_FILTERS: tuple[ListFilter, ...] = (During(name="sealed", column="sealed_at"),)
