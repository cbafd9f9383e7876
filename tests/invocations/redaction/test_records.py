"""What rows beside those of calls show, and the clear text that they keep apart."""

from __future__ import annotations

import pytest
from django.conf import settings

from invocations.redaction import records
from invocations.redaction.policy import RedactionPolicy, RedactionRule
from invocations.redaction.records import RecordRedaction
from tools_catalog.secrets import SecretError

FORMED = "ghp_" + "a1" * 18
SCHEMA = {"type": "object", "properties": {"pin": {"type": "string"}, "text": {"type": "string"}}}
RULES = [RedactionRule("", "both", "form", "github_token"), RedactionRule("lock", "arguments", "path", "$.pin")]


@pytest.fixture
def record() -> RecordRedaction:
    return RecordRedaction(RedactionPolicy(RULES, settings.MCPHUB_ENCRYPTION_KEYS))


def test_what_holds_nothing_stays_itself_and_keeps_nothing_apart(record: RecordRedaction) -> None:
    said = [{"type": "text", "text": "nothing"}]
    assert record.words(said) is said
    assert record.arguments("lock", {"inputSchema": SCHEMA}, arguments := {"text": "x"}) is arguments
    assert records.apart(said, said, of="a") is None
    assert record.has_grown() is False


def test_a_value_marked_once_goes_from_everything_later_and_from_what_was_before(record: RecordRedaction) -> None:
    before = record.words("open it with tulip4711, please")
    shown = record.arguments("lock", {"inputSchema": SCHEMA}, {"pin": "tulip4711"})
    assert "tulip4711" not in str(shown)
    assert "tulip4711" not in record.words("tulip4711 was right")
    assert record.has_grown() is True
    assert "tulip4711" not in record.scrub(before)
    assert record.has_grown() is False


def test_another_record_seeks_what_one_found(record: RecordRedaction) -> None:
    record.words(f"my key is {FORMED}")
    later = RecordRedaction(RedactionPolicy(keys=settings.MCPHUB_ENCRYPTION_KEYS))
    later.seek(record.values())
    assert FORMED not in later.words(f"it was {FORMED}")


def test_arguments_of_a_tool_that_nobody_knows_lose_what_any_rule_names(record: RecordRedaction) -> None:
    assert "tulip4711" not in str(record.arguments("lok", None, {"pin": "tulip4711"}))


def test_too_much_to_seek_leaves_no_text(record: RecordRedaction) -> None:
    record.seek([None])
    assert "anything" not in record.words("anything at all")


def test_clear_text_is_read_by_its_owner_alone() -> None:
    token = records.apart("shown", {"pin": "tulip4711"}, of="approval a")
    assert token is not None
    assert "tulip4711" not in token
    assert records.unseal(token, of="approval a") == {"pin": "tulip4711"}
    with pytest.raises(SecretError):
        records.unseal(token, of="approval b")
