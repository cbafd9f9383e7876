"""Server-sent events, out and in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import sse
from sessions_app.protocol.sse import Decoder, EventTooLarge, ServerSentEvent

LINES = st.lists(
    st.sampled_from(
        [
            b"data: a",
            b"data:b",
            b"data",
            b"data:  c",
            b"event: x",
            b"event",
            b"id: 1",
            b"id",
            b"id: \0",
            b"retry: 5",
            b"retry: x",
            b"retry:",
            b": comment",
            b"",
            b"",
            b"unknown: 1",
            b"data: \xff",
            b"\xef\xbb\xbfdata: d",
        ]
    )
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def decode(chunks: list[bytes], limit: int):
    decoder = Decoder(max_event_bytes=limit)
    events: list[ServerSentEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
    except EventTooLarge as error:
        return [*events, *error.events, "too large"]
    return [*events, decoder.last_event_id, decoder.retry_ms]


@given(st.lists(st.tuples(LINES, ENDS)), st.lists(st.integers(0, 10_000)), st.sampled_from([10, 20, 1000]))
def test_decoding_does_not_depend_on_where_chunks_are_cut(blocks, places, limit):
    stream = b"".join(line + end for lines, end in blocks for line in lines)
    assert decode(cut(stream, places), limit) == decode([stream], limit)


@given(st.text().map(lambda text: text.encode("utf-8", "replace")), st.sampled_from([None, "message", "x"]))
def test_a_frame_decodes_to_its_data(data, kind):
    event = Decoder().feed(sse.frame(data, event=kind, id="7", retry_ms=9))[0]
    assert event.data == data.decode().replace("\r\n", "\n").replace("\r", "\n")
    assert (event.event, event.id) == (kind or "message", "7")


def test_a_frame_is_written_as_the_standard_wants():
    assert sse.frame(b"{}") == b"data: {}\n\n"
    assert sse.frame(b"a\nb", event="e", id="1", retry_ms=3) == b"event: e\nid: 1\nretry: 3\ndata: a\ndata: b\n\n"


def test_a_priming_event_has_an_id_and_empty_data():
    """MCP 2025-11-25, Streamable HTTP."""
    assert Decoder().feed(sse.frame(b"", id="s1")) == [ServerSentEvent("", "message", "s1")]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_a_field_cannot_smuggle_a_line(bad):
    with pytest.raises(ValueError):
        sse.frame(b"", event=bad)
    with pytest.raises(ValueError):
        sse.frame(b"", id=bad)


@pytest.mark.parametrize("text", ["", "keep\nalive\ndata: x"])
def test_a_comment_is_no_event(text):
    assert Decoder().feed(sse.comment(text)) == []
    assert sse.comment(text).startswith(b":")


def test_an_id_without_data_is_kept_and_not_reported():
    decoder = Decoder()
    assert decoder.feed(b"id: 5\nretry: 10\n\n") == []
    assert (decoder.last_event_id, decoder.retry_ms) == ("5", 10)
    assert decoder.feed(b"data: x\n\n") == [ServerSentEvent("x", "message", "5")]


def test_an_oversized_event_ends_the_stream_but_not_the_events_before_it():
    decoder = Decoder(max_event_bytes=10)
    with pytest.raises(EventTooLarge) as caught:
        decoder.feed(b"data: a\n\ndata: 0123456789")
    assert caught.value.events == [ServerSentEvent("a")]
    with pytest.raises(EventTooLarge):
        decoder.feed(b"\n\ndata: b\n\n")


def test_endless_keep_alive_comments_never_fill_the_limit():
    decoder = Decoder(max_event_bytes=10)
    for _ in range(100):
        assert decoder.feed(b": alive\n") == []
