"""`mcphub audit list` and `show`: recorded calls in REST's form; reading bodies here is recorded, too."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind

if TYPE_CHECKING:
    from django.db.models import QuerySet

_MOST = 500
_FILTERS = {"tool": "tool_name", "principal": "principal", "session": "session_id", "error-code": "error_code"}
"""Flag -> the column that it compares; each has an index."""


def declare(verbs: Any, moment: Any) -> None:
    """Declare the verbs; `moment` reads a time."""
    listed = rows.declare_list(verbs, KIND)
    for flag in _FILTERS:
        word = flag.upper().replace("-", "_")
        listed.add_argument(f"--{flag}", default="", metavar=word, help=f"of this {flag.replace('-', ' ')} only")
    listed.add_argument("--status", choices=["ok", "error"], default="", help="only calls with this status")
    listed.add_argument("--from", dest="since", type=moment, metavar="TIME", help="received at or after")
    listed.add_argument("--until", type=moment, metavar="TIME", help="received before")
    listed.add_argument("--limit", type=_limit, default=50, metavar="N", help=f"the newest, at most {_MOST} (50)")
    show = rows.declare_show(verbs, KIND)
    show.add_argument(
        "--bodies", action="store_true", help="with arguments, result and error; the audit records who read them"
    )


def run(options: argparse.Namespace) -> int:
    return _list(options) if options.verb == "list" else _show(options)


def _list(options: argparse.Namespace) -> int:
    found = _calls()
    wanted = {column: getattr(options, flag.replace("-", "_")) for flag, column in _FILTERS.items()}
    wanted |= {"status": options.status, "received_at__gte": options.since, "received_at__lt": options.until}
    found = found.filter(**{column: value for column, value in wanted.items() if value})
    return rows.list_rows(KIND, options, found[: options.limit])


def _show(options: argparse.Namespace) -> int:
    if not options.bodies:
        return rows.show_row(KIND, options)
    from django.contrib.auth.models import AnonymousUser

    from invocations.rest import reads
    from invocations.rest.serializers import BODIES

    row = rows.named(KIND, [options.name])[0]
    # Nobody is logged in here, so the event names the machine's user.
    reads.note(AnonymousUser(), "mcphub audit show", list(BODIES), [row.pk], row.invocation_id)
    return rows.show_row(replace(KIND, rows=_with_bodies, told=_told_whole), options)


def _calls() -> QuerySet[Any]:
    from invocations.rest.serializers import BODIES

    return _with_bodies().defer(*BODIES)


def _with_bodies() -> QuerySet[Any]:
    from invocations.lists.erased import marked
    from invocations.models import McpToolInvocation

    return marked(McpToolInvocation.objects.order_by("-id"))


def _told(row: Any, *, hidden: bool = True) -> Mapping[str, Any]:
    from invocations.rest.serializers import InvocationSerializer

    return dict(InvocationSerializer(row, context={"hidden": hidden, "fields": None}).data)


def _told_whole(row: Any) -> Mapping[str, Any]:
    return _told(row, hidden=False)


def _line(told: Mapping[str, Any]) -> list[object]:
    what = told["tool_name"] or told["method"]
    took = "-" if told["duration_ms"] is None else f"{told['duration_ms']} ms"
    outcome = told["error_code"] or told["status"]
    return [told["received_at"], told["invocation_id"], outcome, what, told["caller_label"] or told["principal"], took]


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 4 or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, 1 to {_MOST}")
    return int(text)


KIND = RowKind(
    command="audit",
    noun="call",
    nouns="calls",
    key="invocation_id",
    rows=_calls,
    told=_told,
    line=_line,
    none="There is no such call.",
    metavar="ID",
)
