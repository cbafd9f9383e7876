"""What an upstream echoes of the hub's own secrets goes no further."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.errors import UpstreamError
from tools_catalog.backends.http.answer import scrubbed
from tools_catalog.backends.http.template import Values
from tools_catalog.bindings import Destination
from tools_catalog.upstream.scrubbing import Scrubber

PRINTABLE = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
SECRETS = st.text(PRINTABLE, min_size=6, max_size=30).filter(lambda text: text not in "[secret]")


def knowing(*values: str) -> Scrubber:
    scrub = Scrubber(lambda name, host: name)
    for value in values:
        assert scrub(value, "host") == value
    return scrub


@given(SECRETS, st.text(max_size=10))
def test_an_echo_is_taken_out_of_every_place(secret: str, around: str) -> None:
    value: Any = {"content": [{"type": "text", "text": f"Bearer {secret}!"}], secret: [1, None, {"x": secret}]}
    assert secret not in json.dumps(knowing(secret).value(value), ensure_ascii=False)
    assert secret not in knowing(secret).text(f"{around}{secret}{around}").replace("[secret]", "")


def test_the_rest_stays_as_it_was() -> None:
    value = {"text": "nothing of it", "n": 1}
    assert knowing("hunter2!").value(value) is value
    assert Scrubber(lambda name, host: "").value(value) is value


def test_errors_tell_none_of_it() -> None:
    error = UpstreamError("token hunter2! is bad", upstream={"code": 1, "message": "hunter2!"})
    knowing("hunter2!").error(error)
    assert "hunter2!" not in str(error)
    assert error.details == {"upstream": {"code": 1, "message": "[secret]"}}


@pytest.mark.parametrize("secret", ["hunter2!/pass+word", 'quo"ted\\secret', "пароль-ключ", "me@example.org:token-123"])
@given(before=st.text(max_size=5), after=st.text(max_size=5))
def test_an_echo_in_a_usual_encoding_is_taken_out(secret: str, before: str, after: str) -> None:
    around = f"{before}{secret}{after}".encode()
    raw = secret.encode()
    ways = {
        "hexadecimal": (raw.hex(), raw.hex().upper()),
        "percent": (quote(secret, safe=""), quote_plus(secret), "".join(f"%{byte:02x}" for byte in raw)),
        "reversed": (secret[::-1],),
        "escapes": ("".join(f"\\u{ord(char):04X}" for char in secret), json.dumps(json.dumps(secret))[3:-3]),
    }
    for way, written in ways.items():
        for text in written:
            assert text not in knowing(secret).text(f"<{text}>"), way
            assert "[secret]" in str(knowing(secret).value({"said": f"<{text}>"})), way
            assert b"[secret]" in scrubbed(f"<{text}>".encode(), [secret]), way
    for encode in (b64encode, urlsafe_b64encode):
        assert "[secret]" in knowing(secret).text(encode(around).decode())


def test_the_password_of_basic_credentials_is_a_secret_of_its_own() -> None:
    values = Values({}, lambda name, to: "me@example.org:token-123", Destination("https://api.example.org"))
    assert values.basic("KEY", "headers.Authorization") == b64encode(b"me@example.org:token-123").decode()
    assert scrubbed(b"your token is token-123", values.used_secrets) == b"your token is [secret]"
