"""What an upstream echoes of the hub's own secrets goes no further."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.errors import UpstreamError
from tools_catalog.upstream.scrubbing import Scrubber

SECRETS = st.text(min_size=6, max_size=30).filter(lambda text: text.isprintable() and text not in "[secret]")


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
