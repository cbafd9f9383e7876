"""Secrets told by their form, the encodings of what was marked elsewhere, and what hostile texts cost."""

from __future__ import annotations

import base64
import json as stdlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invocations.redaction.bodies import StoredBodies
from invocations.redaction.policy import RedactionRule, Redactor
from sessions_app.kit.secret_forms import FORMS, Forms, is_card
from sessions_app.protocol import json

KEYS = (("k1", b"1" * 32),)
EVERY = [RedactionRule("", "both", "form", name) for name in FORMS]
MARKED = RedactionRule("", "both", "path", "$..password")
_LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2dE3fG4hI5jK6lM7nO8pQ9rS0tU1vW2xY3zA4bC5dE6fG7h"
_BYTES = base64.b64encode(bytes(range(64))).decode()

# Put together here, so that no scanner takes this file for a leak.
CANARIES = {
    "aws_key": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret": "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "google_key": "AIza" + _LETTERS[:35],
    "azure_key": _BYTES,
    "github_token": "ghp_" + _LETTERS[:36],
    "gitlab_token": "glpat-" + _LETTERS[:20],
    "slack_token": "xoxb-" + "123456789012-" + _LETTERS[:24],
    "stripe_key": "sk_live_" + _LETTERS[:24],
    "model_key": "sk-ant-api03-" + _LETTERS[:60],
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + _LETTERS[:43],
    "private_key": f"-----BEGIN RSA PRIVATE KEY-----\n{_LETTERS[:64]}\n{_LETTERS[5:69]}\n-----END RSA PRIVATE KEY-----",
    "payment_card": "4111 1111 1111 1111",
    "address_password": "hunter2hunter2",
    "address_secret": "correct-horse-battery",
}
IN_TEXT = {
    "aws_secret": "aws_secret_access_key = {}",
    "azure_key": "AccountName=x;AccountKey={};EndpointSuffix=core.windows.net",
    "address_password": "postgres://ann:{}@db.example/x",
    "address_secret": "https://example.com/a?x=1&access_token={}&y=2",
}


def said(form):
    return IN_TEXT.get(form, "it is {}, you know").format(CANARIES[form])


def kept(arguments, *rules, result=None, error=None):
    stored = StoredBodies(arguments, json.canonical(arguments), Redactor(rules, {}, KEYS))
    outcome = stored.outcome(None if result is None else json.canonical(result), error)
    return stored.arguments, *outcome, stored


def telling(form):
    """The part of a canary without which it is none."""
    return CANARIES[form].splitlines()[-2 if form == "private_key" else 0]


def test_each_form_has_a_canary():
    assert set(CANARIES) == set(FORMS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "shape",
    [
        lambda text: {"note": text},
        lambda text: {"a": [{"b": text}]},
        lambda text: {text: "a name"},
        lambda text: {"inner": stdlib.dumps({"deep": stdlib.dumps([text])})},
    ],
)
def test_known_form_is_taken_out_wherever_it_stands(form, shape):
    text, result, error, stored = kept(
        shape(said(form)),
        *EVERY,
        result={"content": [shape(said(form))]},
        error={"code": 1, "message": said(form), "data": {"errorCode": "x", "retryable": False, "details": {}}},
    )
    for body in (text, result, error):
        assert telling(form) not in body
        assert "redacted:k1:" in body
    assert stored.left_out["error"]["redacted"] == ["$.message"]
    if "note" in shape(""):
        assert stored.left_out["arguments"]["redacted"] == ["$.note"]


@pytest.mark.parametrize("form", FORMS)
def test_form_whose_rule_is_off_stays(form):
    others = [rule for rule in EVERY if rule.place == "payment_card" and form != "payment_card"]
    assert telling(form) in stdlib.loads(kept({"note": said(form)}, *others)[0])["note"]


@pytest.mark.parametrize("form", FORMS)
def test_form_written_with_escapes_in_nested_json_is_found(form):
    inner = '{"t":"' + "".join(f"\\u{ord(letter):04x}" for letter in said(form)) + '"}'
    text = kept({"body": inner}, *EVERY)[0]
    assert "redacted:k1:" in text
    assert telling(form) not in text


@pytest.mark.parametrize(
    "text",
    [
        "order 4111111111111112 of 2026",
        "2026-11-23T23:30:00.123456+00:00",
        "1700000000000000",
        "task-list-of-a-long-afternoon-in-june",
        "https://example.com/?page_token=abc&next_token=def&q=token",
        "https://example.com:8080/a@b",
        "a key=value pair; see AKIA in the handbook",
        "eyJ is how they begin",
        "0d9f1b5e-7a55-4e0a-9f3b-1c7f7a3f7d11",
    ],
)
def test_harmless_text_stays(text):
    assert kept({"note": text}, *EVERY)[0] == json.canonical({"note": text})


def test_card_that_is_a_number_goes_and_one_after_other_digits_too():
    assert "4111111111111111" not in kept({"card": 4111111111111111}, *EVERY)[0]
    assert "4111 1111" not in kept({"card": "in 2026 4111 1111 1111 1111"}, *EVERY)[0]


@given(st.from_regex(r"[2-6][0-9]{11,18}", fullmatch=True))
def test_a_card_has_one_last_digit(digits):
    assert sum(is_card(digits + last) for last in "0123456789") <= 1


@given(st.binary(max_size=7), st.text("abcdefghijklmnop0123456789/+ü", min_size=9, max_size=40), st.binary(max_size=7))
def test_base64_of_a_marked_value_goes_at_every_alignment(before, secret, after):
    raw = before + secret.encode() + after
    for encoded in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
        # What is sought in full: all characters that nothing but the secret decides.
        begin, end = -(-8 * len(before) // 6), 8 * (len(before) + len(secret.encode())) // 6
        text = kept({"password": secret, "again": f"<{encoded}>"}, MARKED)[0]
        assert encoded[begin:end] not in text


@given(st.text(min_size=6, max_size=40).filter(lambda text: not set(text) <= set("redacted:k0123456789abcdefABCDEF%")))
def test_hex_percent_and_json_escapes_of_a_marked_value_go(secret):
    raw = secret.encode("utf-8", "replace")
    spellings = [
        raw.hex(),
        raw.hex().upper(),
        "".join(f"%{byte:02X}" for byte in raw),
        "".join(f"%{byte:02x}" for byte in raw),
    ]
    _, result, _, _ = kept({"password": secret}, MARKED, result={"content": spellings})
    assert not any(spelling in result for spelling in spellings)


def test_marked_name_in_any_case_and_in_json_within_json_goes_from_results():
    result = {
        "structuredContent": {"PassWord": "s3cret-a"},
        "content": [stdlib.dumps({"x": '  {"PASSWORD": "s3cret-b"}'})],
    }
    text = kept({}, MARKED, result=result)[1]
    assert "s3cret" not in text


def test_secret_that_is_the_name_of_a_hidden_member_goes_elsewhere_and_from_the_places():
    arguments = {"password": {"hunter2hunter2": True}, "hunter2hunter2": {"password": "x"}}
    text, _, _, stored = kept(arguments, MARKED)
    assert "hunter2" not in text + stdlib.dumps(stored.left_out)


def test_what_is_nested_too_deeply_to_be_walked_is_searched_as_text():
    value = CANARIES["github_token"]
    for _ in range(400):
        value = [value]
    assert CANARIES["github_token"] not in kept({"a": 1}, *EVERY, result={"content": value})[1]


LONG = 200_000


@pytest.mark.parametrize(
    "seed",
    ["eyJ", "eyJa.", "eyJaaaaaaaa.a.", "sk-", "sk-aaaaaaaaaaaaaaaaaaaa", "://", "://a:", "-----BEGIN ", "?a=", "?a",
     "-----BEGIN PRIVATE KEY-----", "4111 ", "4", "41-", "ghp_", "gh", "glpat-", "xoxb-", "AKIA", "AccountKey=", "8Q~",
     "secret_access_key = ", "ya29.", "&token", "AAAA8Q~"],
)  # fmt: skip
def test_hostile_text_is_searched_to_its_end(seed):
    """Each would take minutes where a pattern read the text anew from every place: the run's timeout would end it."""
    forms = Forms(FORMS)
    text = (seed * (LONG // len(seed) + 1))[:LONG]
    assert all(0 <= begin < end <= LONG for begin, end in forms.spans(text))
    canary = f"{text} {CANARIES['github_token']} "
    assert any(begin <= canary.rindex("ghp_") < end for begin, end in forms.spans(canary))


def test_a_card_is_found_wherever_a_long_text_has_it() -> None:
    card = CANARIES["payment_card"]
    forms = Forms(("payment_card",))
    for before in (0, 1024 * 1024 - len(card) // 2, 3 * 1024 * 1024):
        text = f"{'x' * before} {card} {'y' * 1024}"
        assert forms.may_be_in(text)
        assert [text[begin:end] for begin, end in forms.spans(text)] == [card]
