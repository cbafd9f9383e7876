"""Reads one transcript with youtube-transcript-api, whose requests leave through the egress guard.

The library is synchronous and has sessions of `requests`; their adapter hands each request to the hub's own client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx2
import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from youtube_transcript_api import YouTubeTranscriptApi
from youtube_transcript_api import _errors as failures

from sessions_app.protocol import errors
from tools_catalog.backends.http.answer import read as read_body
from tools_catalog.backends.python import ToolError
from tools_catalog.egress import guard as egress
from tools_catalog.packs.transcript.tools import Snippet, Transcript

_MOST_BYTES = 8 * 1024 * 1024
_KEPT = frozenset({"accept-language", "content-type", "cookie", "user-agent", "accept"})

_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (failures.TranscriptsDisabled, "The video has no transcript: subtitles are switched off."),
    (failures.AgeRestricted, "The video is for adults only: its transcript is given to people with an account."),
    (failures.InvalidVideoId, "There is no video of this id."),
    (failures.VideoUnavailable, "There is no such video, or it is no longer there."),
    (failures.VideoUnplayable, "The video cannot be played, so there is no transcript of it."),
    (
        failures.RequestBlocked,
        "YouTube refuses requests from the network that the hub runs in. Try later, or tell the hub's operator.",
    ),
    (failures.PoTokenRequired, "YouTube asks for more than the hub can show for this video. Try another one."),
)


class Guarded(BaseAdapter):
    """Sends the requests of `requests` with the guarded client, on the hub's event loop."""

    def __init__(self, client: httpx2.AsyncClient, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__()
        self._client, self._loop = client, loop
        self._deadline = time.monotonic() + seconds

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise errors.ToolTimeout
        return asyncio.run_coroutine_threadsafe(self._send(request, left), self._loop).result(left + 5)

    async def _send(self, request: requests.PreparedRequest, seconds: float) -> requests.Response:
        given = request.body or b""
        content = given.encode() if isinstance(given, str) else bytes(given) if isinstance(given, bytes) else b""
        headers = {name: str(value) for name, value in request.headers.items() if name.lower() in _KEPT}
        try:
            async with (
                asyncio.timeout(seconds),
                egress.stream(
                    self._client, request.method or "GET", request.url or "", headers=headers, content=content or None
                ) as response,
            ):
                body, is_whole = await read_body(response, _MOST_BYTES)
        except TimeoutError as error:
            raise errors.ToolTimeout("YouTube did not answer in time.") from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise errors.ConnectionFailed(
                "YouTube cannot be reached from where the hub runs. Tell the hub's operator if it goes on."
            ) from error
        except httpx2.HTTPError as error:
            raise errors.TransportError from error
        if not is_whole:
            raise errors.ResultInvalid(f"YouTube answered more than {_MOST_BYTES} bytes.")
        made = requests.Response()
        made.status_code, made._content, made.url = response.status_code, body, request.url or ""
        made.headers = CaseInsensitiveDict(response.headers)
        made.encoding, made.request = "utf-8", request
        return made

    def close(self) -> None:
        """The client is shared."""


def read(video: str, languages: Sequence[str], adapter: BaseAdapter) -> Transcript:
    """Return a video's transcript in the first language that there is; raise ToolError or a HubError."""
    with requests.Session() as session:
        session.trust_env = False
        session.adapters.clear()
        session.mount("https://", adapter)
        try:
            offered = YouTubeTranscriptApi(http_client=session).list(video)
            codes = [each.language_code for each in offered]
            try:
                fetched = offered.find_transcript(languages).fetch()
            except failures.NoTranscriptFound as error:
                there = ", ".join(dict.fromkeys(codes)) or "none"
                raise ToolError(f"There is no transcript in {', '.join(languages)}. There are: {there}.") from error
        except failures.YouTubeRequestFailed as error:
            raise errors.UpstreamError(f"YouTube refused the request: {str(error.reason)[:200]}") from error
        except failures.CouldNotRetrieveTranscript as error:
            words = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
            raise ToolError(words or "YouTube's answer cannot be read. It may have changed; try later.") from error
        except requests.RequestException as error:
            raise errors.TransportError from error
    lines = [Snippet(start_seconds=each.start, duration_seconds=each.duration, text=each.text) for each in fetched]
    return Transcript(
        video_id=video,
        language=fetched.language_code,
        language_name=fetched.language,
        is_generated=fetched.is_generated,
        available_languages=list(dict.fromkeys(codes)),
        text=" ".join(line.text.replace("\n", " ").strip() for line in lines),
        snippets=lines,
    )
