"""`mcphub access-review`: starts reviews of who may call what, shows them, decides about their grants, closes them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, fills, migrated_database
from mcphub.commands.workspace import KIND as WORKSPACES

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.access_review.models import AccessReview

_WORDS = {"keep": "keep", "take-away": "take_away"}


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="start|list|show|decide|close", required=True, title="verbs", dest="verb")
    start = verbs.add_parser("start", help="start a review of who may call what now")
    start.add_argument("name", metavar="NAME", help="such as 'Quarterly review Q3'")
    due = start.add_argument("--due", required=True, type=_moment, metavar="TIME", help="reviewers decide until then")
    fills(due, "due_at")
    reviewer = start.add_argument(
        "--reviewer", required=True, action="append", metavar="USER", help="who decides; may be given several times"
    )
    fills(reviewer, "reviewers")
    rows.completes(start.add_argument("--workspace", metavar="NAME", help="of this workspace only"), WORKSPACES)
    start.add_argument("--group", metavar="NAME", help="of this group only")
    start.add_argument("--tools", default="", metavar="PATTERNS", help="who may call tools with these names: 'pay.*'")
    rows.declare_list(verbs, KIND)
    show = rows.declare_show(verbs, KIND)
    show.add_argument("--undecided", action="store_true", help="list only grants without a decision")
    show.add_argument("--unused", action="store_true", help="list only grants unused for 90 days")
    decide = verbs.add_parser("decide", help="keep grants, or take them away")
    rows.completes(decide.add_argument("name", metavar="REVIEW", help="its number, or name"), KIND)
    decide.add_argument("decision", choices=list(_WORDS), help="take-away really takes them away")
    decide.add_argument("grant", metavar="GRANT", nargs="+", type=int, help="their numbers, as `show` lists them")
    close = verbs.add_parser("close", help="end a review; what is undecided stays")
    rows.completes(close.add_argument("name", metavar="REVIEW", help="its number, or name"), KIND)
    for each in (start, decide, close):
        each.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
        each.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    if options.verb == "list":
        return rows.do(KIND, options)
    with migrated_database():
        return {"start": _start, "show": _show, "decide": _decide, "close": _close}[options.verb](options)


def _start(options: argparse.Namespace) -> int:
    from django.contrib.auth.models import Group, User

    from mcphub.features.access_review import deciding
    from mcphub.features.access_review.models import AccessReview

    workspace = rows.named(WORKSPACES, [options.workspace])[0] if options.workspace else None
    group = Group.objects.filter(name=options.group).first() if options.group else None
    if options.group and group is None:
        raise Stop(f"mcphub access-review start: there is no group {options.group!r}.")
    found = list(User.objects.filter(username__in=options.reviewer))
    if missing := sorted(set(options.reviewer) - {person.get_username() for person in found}):
        raise Stop(f"mcphub access-review start: there is no person {missing[0]!r}.")
    review = AccessReview(name=options.name, workspace=workspace, group=group, tools=options.tools, due_at=options.due)
    deciding.start(review, found, None, options.reason)
    return _told(options, review)


def _show(options: argparse.Namespace) -> int:
    from mcphub.features.access_review.rest import ReviewedGrantSerializer

    review = _review(options)
    grants = review.rows.select_related("review")
    if options.undecided:
        grants = grants.undecided()
    if options.unused:
        grants = grants.filter(is_unused=True)
    if options.json:
        found = [dict(ReviewedGrantSerializer(row).data) for row in grants]
        return rows.print_json({**KIND.told(review), "rows": found})
    for name, value in KIND.told(review).items():
        rows.print_line([f"{name}:", value if value is not None else "-"])
    for row in grants.iterator():
        used = f"{row.last_used_at:%Y-%m-%d}" if row.last_used_at else "never"
        rows.print_line([row.pk, row.state, row.kind, row.label, row.grant, f"{row.tool_count} tools", f"used {used}"])
    return 0


def _decide(options: argparse.Namespace) -> int:
    from mcphub.features.access_review import deciding

    review = _review(options)
    grants = {row.pk: row for row in review.rows.filter(pk__in=options.grant)}
    if unknown := [number for number in options.grant if number not in grants]:
        raise Stop(
            f"mcphub access-review decide: the review has no grant {unknown[0]}. `mcphub access-review show "
            f"{review.pk}` lists them."
        )
    found = deciding.decide(review, list(grants.values()), _WORDS[options.decision], options.reason, None)
    if options.json:
        rows.print_json([{"id": each.row.pk, "state": each.row.state, "problem": each.problem} for each in found])
    else:
        for each in found:
            rows.print_line([each.row.pk, str(each.row), each.problem or each.row.state])
    return 1 if any(each.problem for each in found) else 0


def _close(options: argparse.Namespace) -> int:
    from mcphub.features.access_review import deciding

    review = _review(options)
    deciding.close(review, None, options.reason)
    return _told(options, review)


def _review(options: argparse.Namespace) -> AccessReview:
    """Return the review of a number, or the newest one of a name."""
    of_name: AccessReview | None = _rows().filter(name=options.name).first()
    if of_name is not None:
        return of_name
    if not (options.name.isascii() and options.name.isdecimal() and len(options.name) < 19):
        raise rows.missing(KIND, options.name)
    found: AccessReview = rows.named(KIND, [options.name])[0]
    return found


def _told(options: argparse.Namespace, review: AccessReview) -> int:
    told = KIND.told(_rows().get(pk=review.pk))
    if options.json:
        return rows.print_json(told)
    rows.print_line(KIND.line(told))
    return 0


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-21 or 2026-11-21T08:30:00Z") from None


def _rows() -> QuerySet[Any]:
    from mcphub.features.access_review.models import AccessReview

    found: QuerySet[Any] = AccessReview.objects.counted().select_related("workspace", "group").order_by("-pk")
    return found


def _as_told(row: AccessReview) -> Mapping[str, Any]:
    from mcphub.features.access_review.rest import AccessReviewSerializer

    return dict(AccessReviewSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    decided = told["kept"] + told["taken_away"]
    return [told["id"], told["state"], told["name"], f"due {told['due_at']}", f"{decided} of {told['grants']} decided"]


KIND = RowKind(
    command="access-review",
    noun="access review",
    nouns="access reviews",
    key="pk",
    rows=_rows,
    told=_as_told,
    line=_line,
    none="There is no access review. `mcphub access-review start` starts one.",
    metavar="REVIEW",
)
