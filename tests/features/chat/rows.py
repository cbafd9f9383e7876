"""Providers, models and approvals of a hub as rows, which an operator or the time changes."""

from __future__ import annotations

from typing import Any


def provide(
    slug: str, kind: str, url: str, key: str = "", models: dict[str, dict[str, Any]] | None = None, **fields: Any
) -> None:
    """Add a provider with its models, by name and fields."""
    from mcphub.features.chat.models import ChatModel, ChatProvider

    row = ChatProvider(slug=slug, kind=kind, base_url=url, **fields)
    if key:
        row.set_secret(key)
    row.full_clean()
    row.save()
    for name, more in (models or {}).items():
        model = ChatModel(provider=row, name=name, **more)
        model.full_clean()
        model.save()


def offer_model(provider: str, name: str, **fields: Any) -> None:
    """Add a model to a provider that is there."""
    from mcphub.features.chat.models import ChatModel, ChatProvider

    ChatModel.objects.create(provider=ChatProvider.objects.get(slug=provider), name=name, **fields)


def issue_generous_key(provider: str, model: str) -> str:
    """Return a key whose requests have a model and all tools unless they say otherwise."""
    from mcphub.features.chat.models import ChatKey, ChatModel
    from sessions_app.models import ApiKey

    key, text = ApiKey.issue("generous", scopes=["tools:list", "tools:call", "chat"])
    row = ChatModel.objects.get(provider__slug=provider, name=model)
    ChatKey.objects.create(key=key, model=row, tools="all")
    return text


def demand_approval(tool: str) -> None:
    from mcphub.features.approvals.models import McpToolApproval
    from tools_catalog.models import McpToolDefinition

    McpToolApproval.objects.create(tool=McpToolDefinition.objects.get(name=tool), policy="always")


def approve_as(person: str, id_: str) -> None:
    """Approve a call as a person does in the admin."""
    from invocations.redaction import load
    from invocations.redaction.records import RecordRedaction
    from mcphub.features.chat import approvals

    record = RecordRedaction(load.load())
    approvals.decide(id_, record, approve=True, reason="", actor=person, by=person, principal=None)


def let_approval_expire(id_: str) -> None:
    from datetime import timedelta

    from django.utils import timezone

    from mcphub.features.approvals.models import McpApproval

    McpApproval.objects.filter(pk=id_).update(expires_at=timezone.now() - timedelta(seconds=1))


def question_with_answer(id_: str) -> dict[str, Any]:
    from mcphub.features.chat.models import Query

    asked = Query.objects.select_related("response").get(pk=id_)
    answer = asked.response
    return {
        "id": str(asked.pk),
        "session": str(asked.session_id),
        "content": asked.content,
        "provider": asked.provider,
        "metadata": asked.metadata,
        "answer": str(answer.pk),
        "answer_content": answer.content,
        "provider_used": answer.provider_used,
        "model": answer.model,
        "usage": answer.usage,
        "duration_ms": answer.duration_ms,
        "times": [str(each) for each in (asked.timestamp, answer.timestamp)],
    }


def noted(provider: str) -> str:
    """What the hub has noted of a provider: its last failure, whether it still fails, whether it is left alone."""
    from mcphub.features.chat.models import ChatProviderState

    rows = ChatProviderState.objects.filter(provider__slug=provider)
    return "\n".join(f"{row.failure_code} {row.is_failing} {row.rests_until is not None}" for row in rows)


def quota_of_key(key: str, **fields: Any) -> None:
    """Make a quota that is about the key of this name alone."""
    from mcphub.features.quotas.models import McpQuota
    from sessions_app.models import ApiKey

    row = McpQuota(key=ApiKey.objects.get(name=key), **fields)
    row.full_clean()
    row.save()


def quota_sums(quota: str, columns: list[str]) -> list[list[Any]]:
    """What a quota counted: these columns of each of its sums."""
    from mcphub.features.quotas.models import QuotaCount

    return [list(each) for each in QuotaCount.objects.filter(quota__name=quota).order_by("key").values_list(*columns)]


def price(provider: str, **fields: Any) -> None:
    """Return a model, or `*`, of a provider its price."""
    from mcphub.features.chat.models import ChatModelPrice, ChatProvider

    row = ChatModelPrice(provider=ChatProvider.objects.get(slug=provider), **fields)
    row.full_clean()
    row.save()


def query_codes(words: str) -> list[str]:
    """The error codes of the turns whose question has these words."""
    from mcphub.features.chat.models import Query

    return list(Query.objects.filter(content__contains=words).values_list("error_code", flat=True))
