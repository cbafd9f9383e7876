"""What a question and a session may say, where nothing of the defaults was changed."""

from __future__ import annotations

import pytest
from django.conf import settings

from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.models import ChatSession
from mcphub.features.chat.query_requests import read_query, read_session
from sessions_app.models import RateLimitBucket


@pytest.mark.parametrize("content", ["a", "я" * 4000])
def test_content_has_one_to_four_thousand_characters(content: str) -> None:
    assert read_query({"content": content}).content == content
    for wrong in ("", content + "я" * 4000):
        with pytest.raises(ChatError) as caught:
            read_query({"content": wrong})
        assert (caught.value.code, caught.value.param) == ("INVALID_QUERY", "content")


def test_a_session_sends_twenty_messages_unless_told_otherwise() -> None:
    assert read_session({}, ()).max_messages == ChatSession().max_messages == 20


def test_a_client_may_ask_ten_times_at_once_unless_told_otherwise() -> None:
    assert settings.MCPHUB_CHAT_BURST == RateLimitBucket().capacity == 10


def test_a_turn_has_a_minute_unless_told_otherwise() -> None:
    assert settings.MCPHUB_CHAT_TURN_SECONDS == 60
