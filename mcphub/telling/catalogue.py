"""The catalogue of notices: what people can be told of, in which words, and who may read it.

A notice keeps facts, not sentences; its words are made when it is read, in the language of its reader. A new kind is a
line here, and whoever finds it out calls `noticing.note`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from invocations.quotas import amounts
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

MOST_FACT_CHARACTERS = 300
"""Of one fact: upstreams choose how long their names and errors are."""


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """One line of the catalogue."""

    name: str
    title: _StrOrPromise
    words: _StrOrPromise
    """With the notice's facts as `%(name)s`."""
    permission: str
    """Who has it may read such notices, besides the person whom one is about."""
    page: str
    """Of the admin: the list on which something can be done about it."""
    is_alarm: bool = False
    """Comes through quiet hours where a subscription says so."""
    ends: bool = False
    """A state that ends by itself, as opposed to something that happened once."""


KINDS: Mapping[str, NoticeKind] = {
    kind.name: kind
    for kind in (
        NoticeKind(
            "approval.waits",
            _("A call waits for an approval"),
            _("%(caller)s wants to call %(tool)s. Approve or deny the call; it expires at %(expires)s."),
            "invocations.view_mcpapproval",
            "invocations_mcpapproval",
            ends=True,
        ),
        NoticeKind(
            "change.waits",
            _("A change waits for a second person"),
            _("%(by)s proposed a change of %(subject)s. Confirm or reject it; it expires at %(expires)s."),
            "sessions_app.view_waitingchange",
            "sessions_app_waitingchange",
            ends=True,
        ),
        NoticeKind(
            "connection.down",
            _("A connection is down"),
            _("The upstream %(connection)s cannot be reached: %(error)s"),
            "tools_catalog.view_mcpconnection",
            "tools_catalog_mcpconnection",
            ends=True,
        ),
        NoticeKind(
            "connection.changed",
            _("A connection was changed"),
            _("%(by)s changed the connection %(connection)s: %(fields)s. Its history shows before and after."),
            "tools_catalog.view_mcpconnection",
            "tools_catalog_mcpconnection",
        ),
        NoticeKind(
            "definition.changed",
            _("An upstream changed a definition"),
            _("%(connection)s describes %(count)s of its tools otherwise than they were approved. Calls of them are "
              "refused until somebody approves the new definition."),
            "tools_catalog.view_mcpupstreamtool",
            "tools_catalog_mcpupstreamtool",
            ends=True,
        ),
        NoticeKind(
            "audit.alarm",
            _("Alarm of the audit"),
            _("Verifying the audit raised an alarm: %(problem)s Keep the database as it is and look into it."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            is_alarm=True,
            ends=True,
        ),
        NoticeKind(
            "shipping.behind",
            _("The audit does not reach a target"),
            _("%(target)s lacks %(rows)s sealed rows of the audit. %(problem)s"),
            "invocations.view_shippingtarget",
            "invocations_shippingtarget",
            is_alarm=True,
            ends=True,
        ),
        NoticeKind(
            "ledger.failing",
            _("Calls cannot be recorded"),
            _("The hub on %(host)s cannot record calls, and refuses them: %(problem)s"),
            "sessions_app.view_serverprocess",
            "sessions_app_serverprocess",
            is_alarm=True,
            ends=True,
        ),
        NoticeKind(
            "tool.errors",
            _("A tool fails more often than usual"),
            _("%(failed)s of the last %(calls)s calls of %(tool)s failed, %(share)s %%; usual are %(usual)s %%."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            ends=True,
        ),
        NoticeKind(
            "tool.slow",
            _("A tool is slower than usual"),
            _("Of the last %(calls)s calls of %(tool)s one in twenty took %(now)s ms or more; usual are %(usual)s ms."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            ends=True,
        ),
        NoticeKind(
            "budget.near",
            _("A quota is nearly used up"),
            _("%(caller)s has used %(used)s of %(limit)s of the quota %(quota)s. It is released at %(ends)s."),
            "invocations.view_mcpquota",
            "invocations_mcpquota",
            ends=True,
        ),
        NoticeKind(
            "budget.spent",
            _("A quota is used up"),
            _("%(caller)s has used up the quota %(quota)s: %(used)s of %(limit)s. Further calls are refused until "
              "%(ends)s."),
            "invocations.view_mcpquota",
            "invocations_mcpquota",
            ends=True,
        ),
        NoticeKind(
            "key.ends",
            _("A key is about to expire"),
            _("The key %(key)s stops working at %(expires)s. Move its end, or make another key."),
            "sessions_app.view_apikey",
            "sessions_app_apikey",
        ),
        NoticeKind(
            "client.consented",
            _("A person let a client in"),
            _("%(person)s let the client %(client)s use %(endpoint)s. Take it back if it was not meant."),
            "signin.view_consent",
            "signin_consent",
        ),
        NoticeKind(
            "more",
            _("More notices than are told one by one"),
            _("Notices of the kind %(kind)s come faster than they are told one by one. The list behind them has all."),
            "telling.view_notice",
            "telling_notice",
        ),
        NoticeKind(
            "test",
            _("A test"),
            _("%(by)s asked for a test of the notices. If you read this, they arrive."),
            "",
            "telling_notice",
        ),
    )
}  # fmt: skip
"""Name -> kind."""

CHOSEN = tuple(name for name in KINDS if name not in ("test", "more"))
"""What a subscription may choose. The others come wherever they are sent to."""


def title_of(name: str) -> str:
    kind = KINDS.get(name)
    return str(kind.title) if kind else name


def words_of(name: str, facts: Json) -> str:
    """Give the sentence of a notice in the language that is active. A fact that is missing shows as `?`."""
    kind = KINDS.get(name)
    told = _Facts(facts if isinstance(facts, dict) else {})
    unit = told.get("unit")
    for fact in ("used", "limit"):
        number = told.get(fact)
        if unit in amounts.UNITS and isinstance(number, int):
            told[fact] = amounts.shown(number, str(unit))
    return str(kind.words) % told if kind else name


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
