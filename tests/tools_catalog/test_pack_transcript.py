"""The transcript pack over answers in the shape of YouTube's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from sessions_app.protocol import errors
from tools_catalog.backends.python import ToolError
from tools_catalog.egress import guard as egress
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.packs.transcript.reading import Guarded, read
from tools_catalog.packs.transcript.tools import video_id

VIDEO = "dQw4w9WgXcQ"
WATCH = '<html><script>ytcfg.set({"INNERTUBE_API_KEY": "key-1"})</script></html>'
TRACKS = [
    {
        "baseUrl": "https://www.youtube.com/api/timedtext?v=x&lang=en",
        "name": {"runs": [{"text": "English"}]},
        "languageCode": "en",
        "isTranslatable": True,
    },
    {
        "baseUrl": "https://www.youtube.com/api/timedtext?v=x&lang=de",
        "name": {"runs": [{"text": "German (auto)"}]},
        "languageCode": "de",
        "kind": "asr",
        "isTranslatable": True,
    },
]
LINES = '<?xml version="1.0"?><transcript><text start="0.5" dur="1.5">Hello &amp;amp; all</text><text start="62" dur="2">there</text></transcript>'  # noqa: E501


def player(**more: Any) -> str:
    captions = {"playerCaptionsTracklistRenderer": {"captionTracks": TRACKS, "translationLanguages": []}}
    return json.dumps({"playabilityStatus": {"status": "OK"}, "captions": captions, **more})


class Recorded(BaseAdapter):
    """Answers what YouTube would."""

    def __init__(self, answer: Callable[[str], tuple[int, str]]) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[str] = []

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        assert request.url is not None
        self.asked.append(request.url)
        made = requests.Response()
        made.status_code, text = self.answer(request.url)
        made._content, made.encoding, made.url, made.request = text.encode(), "utf-8", request.url, request
        return made

    def close(self) -> None:
        pass


def usual(url: str) -> tuple[int, str]:
    if "/watch" in url:
        return 200, WATCH
    return (200, player()) if "/player" in url else (200, LINES)


def test_a_transcript_comes_in_the_first_language_that_there_is() -> None:
    adapter = Recorded(usual)
    made = read(VIDEO, ["fr", "de"], adapter)
    assert (made.language, made.language_name, made.is_generated) == ("de", "German (auto)", True)
    assert made.available_languages == ["en", "de"]
    assert made.text == "Hello & all there"
    assert [(line.start_seconds, line.duration_seconds) for line in made.snippets] == [(0.5, 1.5), (62, 2)]
    assert all(url.startswith("https://www.youtube.com/") for url in adapter.asked)


def test_languages_that_there_are_stand_in_the_error() -> None:
    with pytest.raises(ToolError, match=r"no transcript in fr\. There are: en, de"):
        read(VIDEO, ["fr"], Recorded(usual))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda url: (200, WATCH) if "/watch" in url else (200, player(captions={})), "subtitles are switched off"),
        (lambda url: (200, '<div class="g-recaptcha"></div>'), "refuses requests from the network"),
        (lambda url: (200, "<html></html>"), "cannot be read"),
        (
            lambda url: (
                (200, WATCH)
                if "/watch" in url
                else (200, player(playabilityStatus={"status": "ERROR", "reason": "This video is unavailable"}))
            ),
            "no such video",
        ),
    ],
)
def test_what_goes_wrong_is_said_in_words(answer: Callable[[str], tuple[int, str]], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        read(VIDEO, ["en"], Recorded(answer))


def test_a_refused_request_is_an_error_of_the_upstream() -> None:
    with pytest.raises(errors.UpstreamError, match="500"):
        read(VIDEO, ["en"], Recorded(lambda url: (500, "")))


def test_without_a_network_the_connection_fails_and_the_guard_is_asked_first() -> None:
    asked: list[str] = []

    async def nowhere(host: str, port: int) -> list[str]:
        asked.append(host)
        raise OSError("no network")

    async def go() -> None:
        async with egress.client(EgressPolicy(), resolve=nowhere) as client:
            guarded = Guarded(client, asyncio.get_running_loop(), 30)
            await asyncio.to_thread(read, VIDEO, ["en"], guarded)

    with pytest.raises(errors.ConnectionFailed, match="YouTube cannot be reached"):
        asyncio.run(go())
    assert asked == ["www.youtube.com"]


@pytest.mark.parametrize(
    "given",
    [
        VIDEO,
        f" {VIDEO} ",
        f"https://www.youtube.com/watch?v={VIDEO}&t=5s",
        f"https://youtu.be/{VIDEO}?si=x",
        f"youtube.com/shorts/{VIDEO}",
        f"https://m.youtube.com/embed/{VIDEO}",
        f"http://music.youtube.com/watch?v={VIDEO}",
        f"https://www.youtube.com/live/{VIDEO}",
    ],
)
def test_a_video_is_named_by_address_or_id(given: str) -> None:
    assert video_id(given) == VIDEO


@pytest.mark.parametrize(
    "given",
    ["", "short", f"https://example.org/watch?v={VIDEO}", "https://youtube.com/", "http://[", "../x", f"{VIDEO}x"],
)
def test_what_is_no_video_is_refused(given: str) -> None:
    with pytest.raises(ToolError):
        video_id(given)
