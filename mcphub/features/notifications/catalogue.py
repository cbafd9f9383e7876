"""The catalogue of notices: their kinds, texts, and required permissions.

A notice keeps facts, not sentences; its words are made when it is read, in the language of its reader. A new kind is a
line here, or a part of a feature, and whoever finds it out calls `noticing.note`.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from mcphub.parts import NoticeKind
from sessions_app.kit.features import declared, loaded
from sessions_app.protocol.json import Json

MOST_FACT_CHARACTERS = 300
"""Of one fact: upstreams choose how long their names and errors are."""


KINDS: Mapping[str, NoticeKind] = {
    kind.name: kind
    for kind in (
        *declared(NoticeKind),
        NoticeKind(
            "change.waits",
            _("A change is waiting for a second person"),
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
            shared=("connection",),
        ),
        NoticeKind(
            "connection.changed",
            _("A connection was changed"),
            _("%(what)s Its history shows before and after."),
            "tools_catalog.view_mcpconnection",
            "tools_catalog_mcpconnection",
            shown="mcphub.features.notifications.sources:edit_of_connection",
        ),
        NoticeKind(
            "definition.changed",
            _("An upstream changed a definition"),
            _(
                    "%(connection)s changed definitions that were approved (tools: %(count)s). Calls of these tools "
                    "are refused until somebody approves the new definitions."),
            "tools_catalog.view_mcpupstreamtool",
            "tools_catalog_mcpupstreamtool",
            ends=True,
            shared=("connection", "count"),
        ),
        NoticeKind(
            "audit.alarm",
            _("Audit log alarm"),
            _("Verifying the audit log raised an alarm: %(problem)s Leave the database as it is and investigate."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            is_alarm=True,
            ends=True,
        ),
        NoticeKind(
            "ledger.failing",
            _("Calls cannot be recorded"),
            _("The hub on %(host)s can't record calls, so it refuses them: %(problem)s"),
            "sessions_app.view_serverprocess",
            "sessions_app_serverprocess",
            is_alarm=True,
            ends=True,
        ),
        NoticeKind(
            "tool.errors",
            _("A tool fails more often than usual"),
            _(
                    "%(failed)s of the last %(calls)s calls of %(tool)s failed, %(share)s %%; the usual rate is "
                    "%(usual)s %%."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            ends=True,
        ),
        NoticeKind(
            "tool.slow",
            _("A tool is slower than usual"),
            _("One in twenty of the last %(calls)s calls of %(tool)s took %(now)s ms or more; usual: %(usual)s ms."),
            "invocations.view_mcptoolinvocation",
            "invocations_mcptoolinvocation",
            ends=True,
        ),
        NoticeKind(
            "key.ends",
            _("A key is about to expire"),
            _("The key %(key)s expires at %(expires)s. Extend it, or create another key."),
            "sessions_app.view_apikey",
            "sessions_app_apikey",
            shared=("key", "expires"),
        ),
        NoticeKind(
            "client.consented",
            _("A person authorized a client"),
            _("%(person)s authorized the client %(client)s for %(endpoint)s. Revoke it if this was not intended."),
            "signin.view_consent",
            "signin_consent",
        ),
        NoticeKind(
            "more",
            _("Too many notifications to list separately"),
            _("Notifications of the kind %(kind)s arrive too fast to send separately. See the list for all of them."),
            "telling.view_notice",
            "telling_notice",
        ),
        NoticeKind(
            "test",
            _("Test"),
            _("%(by)s sent a test notification. If you can read this, delivery works."),
            "",
            "telling_notice",
        ),
    )
}  # fmt: skip
"""Name -> kind."""

CHOSEN = tuple(name for name in KINDS if name not in ("test", "more"))
"""The kinds that a subscription may choose. The others come wherever they are sent to."""


def title_of(name: str) -> str:
    kind = KINDS.get(name)
    return str(kind.title) if kind else name


def words_of(name: str, facts: Json) -> str:
    """Return the sentence of a notice in the language that is active. A fact that is missing shows as `?`."""
    kind = KINDS.get(name)
    told = _Facts(facts if isinstance(facts, dict) else {})
    if kind and kind.shown:
        told.update(loaded(kind.shown)(told))
    return str(kind.words) % told if kind else name


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
