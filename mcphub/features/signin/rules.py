"""Triggers that announce changes of tokens and people to all processes, however their rows change."""

from __future__ import annotations

from sessions_app import bus
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.kit.triggers import Tell, TriggerRule

_TOKENS = "oauth2_provider_accesstoken"
_PRINCIPAL = PEOPLE.principal("OLD")
_ENDED = "OLD.is_active AND NOT NEW.is_active"

RULES: tuple[TriggerRule, ...] = (
    # A new token needs no news: no process has seen it. One that is over is swept in silence.
    Tell(_TOKENS, "mcphub_token_gone", "DELETE", bus.TOKENS_CHANGED, "OLD.token_checksum", "OLD.expires > {now}"),
    Tell(_TOKENS, "mcphub_token_changed", "UPDATE", bus.TOKENS_CHANGED, "OLD.token_checksum"),
    Tell("oauth2_provider_application", "mcphub_client_renamed", "UPDATE OF name", bus.TOKENS_CHANGED),
    Tell(
        PEOPLE.table,
        "mcphub_person_changed",
        f"UPDATE OF is_active, {PEOPLE.name_column}",
        bus.TOKENS_CHANGED,
        when=f"OLD.is_active <> NEW.is_active OR OLD.{PEOPLE.name_column} <> NEW.{PEOPLE.name_column}",
    ),
    Tell(PEOPLE.table, "mcphub_person_ended", "UPDATE OF is_active", bus.CALLER_ENDED, _PRINCIPAL, _ENDED),
    Tell(PEOPLE.table, "mcphub_person_gone", "DELETE", bus.CALLER_ENDED, _PRINCIPAL),
    *(
        Tell(table, f"mcphub_{name}_{event.lower()}", event, bus.TOKENS_CHANGED)
        for table, name in (("signin_issuer", "issuer"), ("auth_group", "group"))
        for event in ("UPDATE", "DELETE")
    ),
    Tell("login_linkedidentity", "mcphub_identity_delete", "DELETE", bus.TOKENS_CHANGED),
    Tell("signin_issuer", "mcphub_issuer_insert", "INSERT", bus.TOKENS_CHANGED),
    Tell(PEOPLE.groups, "mcphub_person_joins", "INSERT", bus.TOKENS_CHANGED),
    Tell(PEOPLE.groups, "mcphub_person_leaves", "DELETE", bus.TOKENS_CHANGED),
)
