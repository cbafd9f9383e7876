"""Prices of models: the arithmetic, which price holds, rows, REST, bundles, the console, the command line."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from mcphub.cli import main
from mcphub.features.chat import doctor
from mcphub.features.chat.models import ChatModel, ChatModelPrice, ChatProvider
from mcphub.features.chat.models.prices import MOST_PRICE
from mcphub.features.chat.providers.completions import MOST_TOKENS, ProviderCompletion, TokenUsage
from mcphub.features.chat.providers.prices import Price, Prices, estimated
from mcphub.features.chat.providers.snapshot import load_prices
from mcphub.features.quotas import amounts
from mcphub.features.quotas.models import McpQuota
from mcphub.features.quotas.quota import QuotaRule, Quotas, charges_of_round
from sessions_app.caller import Caller
from sessions_app.models import AuditEvent
from tests.rest import by_key, error_of
from tools_catalog.bundles import bundle

LIST = "/api/model-prices/"
MONEY = st.integers(0, MOST_PRICE)
TOKENS = st.integers(0, MOST_TOKENS)
CALLER = Caller(principal="user:3", label="", scopes=frozenset(), groups=frozenset({7}), key_id=5)


def a_price(**fields: Any) -> Price:
    return Price(**{"name": "p", "provider": "openai", "model": "m", "read": 0, "cached": 0, "written": 0, **fields})


# The arithmetic ------------------------------------------------------------------------------------


@given(MONEY, MONEY, MONEY, TOKENS, TOKENS, TOKENS)
def test_a_cost_is_whole_and_less_than_a_millionth_above_the_exact_one(
    read: int, cached: int, written: int, prompt: int, from_cache: int, completion: int
) -> None:
    usage = TokenUsage(prompt, completion, from_cache)
    found = a_price(read=read, cached=cached, written=written).cost(usage)
    of_cache = min(from_cache, prompt)
    exact = Fraction((prompt - of_cache) * read + of_cache * cached + completion * written, 1_000_000)
    assert type(found) is int
    assert 0 <= found - exact < 1
    assert found < 2**63 // 1_000_000  # a million of the dearest rounds fit into a sum


@given(MONEY, TOKENS, TOKENS)
def test_more_tokens_never_cost_less(price: int, tokens: int, more: int) -> None:
    one = a_price(read=price, cached=price // 2, written=price)
    assert one.cost(TokenUsage(tokens)) <= one.cost(TokenUsage(tokens + more))
    assert one.cost(TokenUsage(tokens, 0, tokens)) <= one.cost(TokenUsage(tokens))


@given(st.integers(0, 10**15))
def test_money_in_words_is_a_cent_off_at_most_and_never_nothing_for_something(millionths: int) -> None:
    words, _blank, currency = amounts.said(millionths, amounts.MONEY).partition(" ")
    assert currency == "USD"
    assert (words == "0.00") == (millionths == 0)
    figure = Fraction(words.removeprefix("<"))
    assert abs(figure - Fraction(millionths, 1_000_000)) <= Fraction(1, 100)


@given(TOKENS, TOKENS)
def test_an_estimate_is_never_nothing_for_something(sent: int, written: int) -> None:
    found = estimated(sent, written)
    assert (found.prompt_tokens == 0) == (sent == 0)
    assert 4 * found.prompt_tokens - sent in range(4)
    assert 4 * found.completion_tokens - written in range(4)


def test_a_models_own_price_goes_before_that_of_all_and_the_latest_that_has_begun_holds() -> None:
    prices = Prices(
        [
            a_price(name="all", model="*"),
            a_price(name="old", valid_from=10.0),
            a_price(name="new", valid_from=20.0),
            a_price(name="else", provider="other"),
        ]
    )

    def name(provider: str, model: str, moment: float) -> str | None:
        found = prices.of(provider, model, moment)
        return found and found.name

    assert [name("openai", "m", moment) for moment in (9.0, 10.0, 19.9, 20.0)] == ["all", "old", "old", "new"]
    assert (name("openai", "x", 20.0), name("other", "x", 20.0), name("other", "m", 0.0)) == ("all", None, "else")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, (10, 2, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 40}}, (10, 2, 10)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -1}}, (10, 2, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None}, (10, 2, 0)),
        ({"prompt_tokens": 10**30, "completion_tokens": 2}, (MOST_TOKENS, 2, 0)),
    ],
)
def test_what_a_provider_says_of_its_cache_is_read_and_bounded(usage: Any, expected: tuple[int, int, int]) -> None:
    answer = ProviderCompletion()
    answer.read_whole({"choices": [{"message": {"content": "x"}}], "usage": usage})
    assert answer.usage == TokenUsage(*expected)


def test_a_round_counts_in_quotas_of_models_and_a_call_in_those_of_tools() -> None:
    def rule(key: int, unit: str, **more: Any) -> QuotaRule:
        return QuotaRule(**{"key": key, "name": f"q{key}", "per": "person", "unit": unit, "period": "day", **more})

    quotas = Quotas(
        [rule(1, "tokens"), rule(2, "money", provider="openai"), rule(3, "money", provider="other"), rule(4, "calls")]
    )
    assert [each.key for each in quotas.of_provider("openai")] == [1, 2]
    charges = charges_of_round(quotas.of_provider("openai"), CALLER, tokens=7, cost=None, is_estimated=True)
    assert [(each.quota.key, each.amount, each.is_estimated, each.is_unpriced) for each in charges] == [
        (1, 7, True, False),
        (2, 0, True, True),
    ]


# Rows ----------------------------------------------------------------------------------------------


@pytest.fixture
def provider(db: None) -> ChatProvider:
    row: ChatProvider = ChatProvider.objects.create(slug="openai", base_url="https://api.example.com/v1")
    return row


def a_row(provider: ChatProvider, **fields: Any) -> ChatModelPrice:
    return ChatModelPrice(
        **{"provider": provider, "name": "p", "model": "m", "input_millionths": 5, "output_millionths": 9, **fields}
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input_millionths": -1}, "input_millionths"),
        ({"output_millionths": MOST_PRICE + 1}, "output_millionths"),
        ({"cached_millionths": 6}, "cached_millionths"),
        ({"model": ""}, "model"),
        ({"model": "gpt*"}, "model"),
        ({"name": "Not so"}, "name"),
    ],
)
def test_a_price_that_cannot_be_is_refused_at_its_field(
    provider: ChatProvider, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        a_row(provider, **fields).full_clean()
    assert field in refused.value.message_dict


def test_the_database_takes_none_either(provider: ChatProvider) -> None:
    for fields in ({"input_millionths": -1}, {"cached_millionths": 6}, {"model": ""}):
        with pytest.raises(IntegrityError), transaction.atomic():
            a_row(provider, **fields).save()


def test_each_edit_is_an_event_and_a_later_price_waits_for_its_day(provider: ChatProvider) -> None:
    now = timezone.now()
    a_row(provider).save()
    a_row(provider, name="next", input_millionths=7, valid_from=now + timedelta(days=1)).save()
    prices = load_prices()
    assert [prices.of("openai", "m", (now + timedelta(days=days)).timestamp()).read for days in (0.5, 2)] == [5, 7]  # type: ignore[union-attr]
    ChatModelPrice.objects.get(name="p").delete()
    kinds = list(AuditEvent.objects.filter(kind__startswith="price.").order_by("pk").values_list("kind", flat=True))
    assert kinds == ["price.created", "price.created", "price.deleted"]


def test_prices_are_made_changed_and_removed_over_rest(provider: ChatProvider) -> None:
    client = by_key("catalog:write")
    given = {"name": "large", "provider": "openai", "model": "*", "input_millionths": 2_500_000}
    error_of(client.post(LIST, given, "application/json"), 400, "invalid_params")
    made = client.post(LIST, {**given, "output_millionths": 10_000_000, "reason": "list of May"}, "application/json")
    assert made.status_code == 201, made.json()
    assert (made.json()["cached_millionths"], made.json()["output_millionths"]) == (None, 10_000_000)
    changed = client.patch(f"{LIST}large/", {"cached_millionths": 1_000_000}, "application/json")
    assert changed.json()["cached_millionths"] == 1_000_000
    for wrong in ({"input_millionths": "5"}, {"input_millionths": 1.5}, {"input_millionths": MOST_PRICE + 1}):
        error_of(client.patch(f"{LIST}large/", wrong, "application/json"), 400, "invalid_params")
    assert [row["name"] for row in client.get(LIST).json()["results"]] == ["large"]
    assert by_key("tools:list").get(LIST).status_code == 403
    assert client.delete(f"{LIST}large/").status_code == 204
    assert client.get(f"{LIST}large/").status_code == 404


def test_prices_come_and_go_in_bundles(provider: ChatProvider) -> None:
    a_row(provider, cached_millionths=0).save()
    dumped = bundle.dump()["model_prices"]
    assert (dumped[0]["provider"], dumped[0]["cached_millionths"]) == ("openai", 0)
    ChatModelPrice.objects.all().delete()
    for expected in (["p"], []):
        report = bundle.load({"format": bundle.FORMAT, "model_prices": dumped}, reason="from a file")
        assert (report.created, report.refused) == (expected, [])
    assert bundle.dump()["model_prices"] == dumped


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"provider": "nobody"}, "provider: there is no 'nobody' here."),
        ({"provider": ""}, "provider: it is missing."),
        ({"input_millionths": 1.5}, "input_millionths: it must be a number."),
        ({"valid_from": "yesterday"}, "valid_from: write a moment with its zone"),
        ({"valid_from": "2026-13-45T00:00:00Z"}, "valid_from: write a moment with its zone"),
    ],
)
def test_a_wrong_entry_of_a_bundle_says_what_is_wrong(
    provider: ChatProvider, changes: dict[str, Any], words: str
) -> None:
    entry = {"name": "p", "provider": "openai", "model": "m", "input_millionths": 1, "output_millionths": 1, **changes}
    report = bundle.load({"format": bundle.FORMAT, "model_prices": [entry]}, reason="r")
    assert words in report.refused[0][1]
    assert not ChatModelPrice.objects.exists()


def test_the_console_takes_and_shows_money_with_its_decimals(admin_client: Client, provider: ChatProvider) -> None:
    given = {
        "name": "large",
        "provider": provider.pk,
        "model": "m",
        "input_millionths": "2.5",
        "cached_millionths": "",
        "output_millionths": "10",
        "valid_from_0": "2026-11-01",
        "valid_from_1": "00:00:00",
    }
    answer = admin_client.post("/admin/chat/chatmodelprice/add/", given)
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    row = ChatModelPrice.objects.get()
    assert (row.input_millionths, row.cached_millionths, row.output_millionths) == (2_500_000, None, 10_000_000)
    page = admin_client.get(f"/admin/chat/chatmodelprice/{row.pk}/change/").content.decode()
    assert 'value="2.5"' in page
    assert "2.50 USD" in admin_client.get("/admin/chat/chatmodelprice/").content.decode()


def test_the_command_names_prices_and_the_doctor_models_without_one(
    provider: ChatProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("m", "n"):
        ChatModel.objects.create(provider=provider, name=name)
    a_row(provider, input_millionths=2_500_000, output_millionths=10_000_000).save()
    assert main(["quota", "prices"]) == 0
    told = capsys.readouterr().out
    assert "openai/m: a million tokens cost 2.50 USD read, 2.50 USD from the cache, 10.00 USD written (p)." in told
    assert "openai/n: no price. Quotas of money count nothing of it." in told
    assert not list(doctor.check_prices())
    McpQuota.objects.create(name="spent", unit="money", hard_limit=5, provider="openai")
    (finding,) = doctor.check_prices()
    assert "openai/n" in finding.what
    assert "openai/m" not in finding.what
    assert main(["quota", "test", "--model", "openai/m"]) == 0
    assert "spent: anonymous has used 0.00 USD of <0.01 USD." in capsys.readouterr().out
    for words in (["--model", "nobody/x"], [], ["pay", "--model", "openai/m"]):
        assert main(["quota", "test", *words]) == 1
