"""What happens to secrets beside a hub's clients: see `Hub.operate`."""

from __future__ import annotations


def make_secret(name: str, plain: str) -> None:
    from tools_catalog.models import Secret

    secret = Secret(name=name, origins="https://api.example")
    secret.set_value(plain)
    secret.save()


def secret_of(name: str) -> str:
    from tools_catalog.models import Secret

    return Secret.objects.get(name=name).value()


def kinds_of_events() -> list[str]:
    from sessions_app.history.models import AuditEvent

    return list(AuditEvent.objects.values_list("kind", flat=True))


def ciphertext_of(name: str) -> str:
    from tools_catalog.models import Secret

    return Secret.objects.get(name=name).ciphertext


def count_of_calls() -> int:
    from invocations.models import McpToolInvocation

    return McpToolInvocation.objects.count()


def keep_vector(digest: str) -> None:
    from mcphub.features.embeddings.models import CachedVector

    CachedVector.objects.create(digest=digest, vector=b"")
