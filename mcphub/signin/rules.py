"""What the database itself tells all processes of tokens and people, whichever way their rows change."""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app import bus
from sessions_app.kit.triggers import TriggerRule

_INTO = "INSERT INTO sessions_app_busevent (subject, payload, created_at)"
_NOW = {"sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')", "postgresql": "clock_timestamp()"}


@dataclass(frozen=True, slots=True)
class Tell:
    """Publish `subject` for each row that an `event` of `table` concerns and `when` holds of; the payload is SQL."""

    table: str
    name: str
    event: str
    subject: str
    payload: str = "''"
    when: str = "{true}"
    """A condition over OLD and NEW; `{now}` and `{true}` are written as each database writes them."""

    def sqlite(self) -> list[str]:
        when = self.when.format(now=_NOW["sqlite"], true="1")
        return [
            f"DROP TRIGGER IF EXISTS {self.name}",
            f"CREATE TRIGGER {self.name} AFTER {self.event} ON {self.table} FOR EACH ROW WHEN {when} "
            f"BEGIN {_INTO} VALUES ('{self.subject}', {self.payload}, {_NOW['sqlite']}); END",
        ]

    def postgresql(self) -> list[str]:
        when = self.when.format(now=_NOW["postgresql"], true="TRUE")
        return [
            f"CREATE OR REPLACE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # noqa: S608
            f"{_INTO} VALUES ('{self.subject}', {self.payload}, {_NOW['postgresql']}); RETURN NULL; END $$",
            f"CREATE OR REPLACE TRIGGER {self.name} AFTER {self.event} ON {self.table} "
            f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {self.name}()",
        ]


_TOKENS, _PEOPLE = "oauth2_provider_accesstoken", "auth_user"
_ENDED = "OLD.is_active AND NOT NEW.is_active"

RULES: tuple[TriggerRule, ...] = (
    # A new token needs no news: no process has seen it. One that is over is swept in silence.
    Tell(_TOKENS, "mcphub_token_gone", "DELETE", bus.TOKENS_CHANGED, "OLD.token_checksum", "OLD.expires > {now}"),
    Tell(_TOKENS, "mcphub_token_changed", "UPDATE", bus.TOKENS_CHANGED, "OLD.token_checksum"),
    Tell("oauth2_provider_application", "mcphub_client_renamed", "UPDATE OF name", bus.TOKENS_CHANGED),
    Tell(
        _PEOPLE,
        "mcphub_person_changed",
        "UPDATE OF is_active, username",
        bus.TOKENS_CHANGED,
        when="OLD.is_active <> NEW.is_active OR OLD.username <> NEW.username",
    ),
    Tell(_PEOPLE, "mcphub_person_ended", "UPDATE OF is_active", bus.CALLER_ENDED, "'user:' || OLD.id", _ENDED),
    Tell(_PEOPLE, "mcphub_person_gone", "DELETE", bus.CALLER_ENDED, "'user:' || OLD.id"),
    *(
        Tell(table, f"mcphub_{name}_{event.lower()}", event, bus.TOKENS_CHANGED)
        for table, name in (("signin_issuer", "issuer"), ("auth_group", "group"))
        for event in ("UPDATE", "DELETE")
    ),
    Tell("login_linkedidentity", "mcphub_identity_delete", "DELETE", bus.TOKENS_CHANGED),
    Tell("signin_issuer", "mcphub_issuer_insert", "INSERT", bus.TOKENS_CHANGED),
    Tell("auth_user_groups", "mcphub_person_joins", "INSERT", bus.TOKENS_CHANGED),
    Tell("auth_user_groups", "mcphub_person_leaves", "DELETE", bus.TOKENS_CHANGED),
)
