"""Each field of a row that two people decide about: it waits for the second one, or it is known to be harmless."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.test import RequestFactory

from mcphub.features.audit_export.models import ShippingTarget
from mcphub.features.chat.models import ChatProvider
from mcphub.features.login.models import LoginProvider
from mcphub.features.signin.issuers.models import Issuer
from sessions_app.history.guarding import GuardedModel
from sessions_app.history.source import ADMIN, edits_via
from sessions_app.models import WaitingChange
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

_WORDS = "name slug title description words note"
"""For people, models and addresses."""
_MOVES = "workspace"
"""Only who may change workspaces moves a row."""
_BOUNDS = "timeout_seconds calls_per_minute connect_seconds first_byte_seconds idle_seconds total_seconds retries"

HARMLESS: dict[str, str] = {
    # Scopes, groups and bounds of a key: nobody hands out more than they have (sessions_app.keys.making).
    "sessions_app.ApiKey": f"{_WORDS} {_MOVES} owner service secret_hash previous_hash scopes groups calls_per_minute "
    "recorded_mib_per_day expires_at",
    "sessions_app.McpWorkspace": _WORDS,
    # Words, and what its own author wrote; where it may send is in `meta`, what it is in `content` and `function`.
    "tools_catalog.McpResource": f"{_WORDS} {_MOVES} {_BOUNDS} completions icons enabled uri mime_type annotations "
    "backend",
    "tools_catalog.McpPrompt": f"{_WORDS} {_MOVES} {_BOUNDS} function completions icons meta enabled arguments backend "
    "messages",
    "tools_catalog.HttpService": f"{_WORDS} kind version",
    # `is_unconfined` is for superusers; paths lie beneath what the deployment names, and outside of what the hub runs.
    "tools_catalog.LaunchProfile": f"{_WORDS} readable writable network user is_unconfined memory_mb cpu_seconds "
    "open_files file_mb max_processes instances",
    # Tools keep their policies under another prefix; what it may ask of people is named on each question.
    "tools_catalog.McpConnection": f"{_WORDS} {_BOUNDS} enabled transport identity lists_per_person era prefix "
    "sessions may_ask starts_eagerly refresh_seconds max_concurrent max_response_bytes max_notifications",
    "tools_catalog.AllowedHost": _WORDS,
    "tools_catalog.McpToolDefinition": f"{_WORDS} {_BOUNDS} retry_safe task_support requirements",
    "tools_catalog.McpToolset": f"{_WORDS} {_MOVES} mode reads read_patterns prompts resources",
    "tools_catalog.McpPolicyRule": f"{_WORDS} {_MOVES} priority ask_seconds",
    "tools_catalog.McpGuardrail": f"{_WORDS} position",
    "invocations.McpToolApproval": "tool",
    "invocations.McpRedactionRule": _WORDS,
    "invocations.McpErrorMapping": "internal_code json_rpc_code message_template retryable data_schema",
    # How and how often it is sent; never to whom, or more.
    "invocations.ShippingTarget": f"{_WORDS} format begins holds_retention every_seconds header access_id region "
    "file_mib ciphertext",
    "invocations.McpQuota": f"{_WORDS} soft_limit",
    "alerts.Alert": f"{_WORDS} enabled measure limit window_minutes least_calls tool connection workspace person key "
    "provider",
    # Its key is a secret: who may write secrets says whose account it is.
    "chat.ChatProvider": f"{_WORDS} {_BOUNDS} kind ciphertext tools_offered breaker_failures",
    "chat.ChatModelPrice": f"{_WORDS} provider model input_millionths cached_millionths output_millionths valid_from",
    "embeddings.EmbeddingSource": f"{_BOUNDS} model dimensions",
    # Names of new accounts, which never match one; where a login begins, but not who vouches for its end.
    "login.LoginProvider": f"{_WORDS} kind login_address ciphertext scopes username_claim email_claim enabled",
    "signin.Issuer": f"{_WORDS} announced ciphertext",
    "skills.Skill": f"{_WORDS} {_MOVES} path version nested as_prompt enabled toolsets",
    "writes.WriteStop": "workspace reason",
}
"""Model -> fields that one person changes."""


def guarded() -> list[type[GuardedModel]]:
    found: list[Any] = [model for model in apps.get_models() if issubclass(model, GuardedModel)]
    return [model for model in found if not model._meta.label.startswith("tests")]


def editable(model: type[GuardedModel]) -> set[str]:
    fields = [*model._meta.fields, *model._meta.many_to_many]
    hidden, unrecorded = set(model.HIDDEN), set(model.UNRECORDED)
    return {
        each.name
        for each in fields
        if not each.primary_key and each.name not in unrecorded and (each.editable or each.name in hidden)
    }


def test_each_field_waits_for_a_second_person_or_is_harmless() -> None:
    wrong = {}
    for model in guarded():
        named = {*model.guarded_columns(), *model.GUARDED_LINKS, *model.JUDGED_BY, *model.BOUND}
        left = editable(model) - {each.removesuffix("_id") for each in named} - named
        if unknown := left - set(HARMLESS.get(model._meta.label, "").split()):
            wrong[model._meta.label] = sorted(unknown)
    assert wrong == {}, "name them in GUARDED, GUARDED_AS_STORED or JUDGED_BY of the model, or above"


PEM = "-----BEGIN CERTIFICATE-----"
ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "provider": (ChatProvider, {"slug": "ours", "base_url": "https://ours.example/v1", "headers": {"X-Org": "ours"}}),
    "login": (
        LoginProvider,
        {
            "name": "Firm",
            "slug": "firm",
            "issuer": "https://f.example",
            "client_id": "hub",
            "groups": {"ops": ["Operator"]},
            "admits": "mapped",
            "asks_second_factor": True,
        },
    ),
    "issuer": (Issuer, {"name": "firm", "issuer": "https://f.example", "enabled": True, "client_id": "hub"}),
    "export": (
        ShippingTarget,
        {
            "name": "siem",
            "kind": "syslog",
            "address": "tls://s.example:6514",
            "content": "checkpoints",
            "authority": PEM,
        },
    ),
}
EDITS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "questions go to another organization": ("provider", {"headers": {"X-Org": "mine"}}, {"headers"}),
    "groups come by another claim": ("login", {"groups_claim": "nickname"}, {"groups", "admits"}),
    "groups come by another client's claims": ("login", {"client_id": "mine"}, {"groups", "admits"}),
    "no second factor": ("login", {"asks_second_factor": False}, {"asks_second_factor"}),
    "scopes come by another claim": ("issuer", {"scope_claim": "nickname"}, {"enabled"}),
    "tokens are asked for as another client": ("issuer", {"client_id": "mine"}, {"enabled"}),
    "rows leave where checkpoints did": ("export", {"content": "all"}, {"content"}),
    "another authority vouches for the receiver": ("export", {"authority": f"{PEM} mine"}, {"authority"}),
}
"""The gain of one person -> the row, the edit, and the fields that wait."""


@pytest.mark.parametrize("what", EDITS)
def test_nobody_alone_changes_who_reads_or_who_comes_in(what: str) -> None:
    kind, edit, waits = EDITS[what]
    model, fields = ROWS[kind]
    row = model.objects.create(**fields)
    by_one_person(row, edit)
    assert set(WaitingChange.objects.get().after) == waits


@pytest.mark.parametrize(
    ("kind", "edit"), [("login", {"scopes": "openid"}), ("export", {"every_seconds": 5}), ("provider", {"retries": 1})]
)
def test_what_is_harmless_waits_for_nobody(kind: str, edit: dict[str, Any]) -> None:
    model, fields = ROWS[kind]
    row = model.objects.create(**fields)
    by_one_person(row, edit)
    assert not WaitingChange.objects.exists()


def test_a_stricter_login_and_fewer_rows_wait_for_nobody() -> None:
    login = LoginProvider.objects.create(**{**ROWS["login"][1], "asks_second_factor": False})
    export = ShippingTarget.objects.create(**{**ROWS["export"][1], "content": "all"})
    by_one_person(login, {"asks_second_factor": True})
    by_one_person(export, {"content": "checkpoints"})
    assert not WaitingChange.objects.exists()
    login.refresh_from_db()
    export.refresh_from_db()
    assert (login.asks_second_factor, export.content) == (True, "checkpoints")


def by_one_person(row: Any, edit: dict[str, Any]) -> None:
    request: Any = RequestFactory().get("/")
    request.user = UserFactory()
    for name, value in edit.items():
        setattr(row, name, value)
    with edits_via(ADMIN, request):
        row.save()
