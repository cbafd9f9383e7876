"""What a carrier of trace context brings, whatever it holds; and spans where nobody records any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.kit import tracing
from sessions_app.kit.tracing import TraceContext, sent_context

HEX = "0123456789abcdef"
VALID = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def hexadecimal(length: int) -> st.SearchStrategy[str]:
    return st.text(HEX, min_size=length, max_size=length).filter(lambda text: text.strip("0") != "")


@given(hexadecimal(32), hexadecimal(16), st.text(HEX, min_size=2, max_size=2))
def test_a_valid_context_is_read_as_it_came(trace: str, span: str, flags: str) -> None:
    parent = f"00-{trace}-{span}-{flags}"
    found = sent_context({"traceparent": parent, "tracestate": "vendor=1"})
    assert found == TraceContext(parent, "vendor=1")
    assert found.trace_id == trace


@pytest.mark.parametrize(
    "parent",
    [
        "garbage",
        1,
        None,
        ["00"],
        VALID.upper(),
        VALID.replace("a", "0"),
        VALID.replace("b", "0"),
        "ff" + VALID[2:],
        VALID + "\n",
        "x" * 10_000,
        VALID + "-" + "x" * 300,
    ],
)
def test_a_garbled_context_is_none(parent: object) -> None:
    assert sent_context({"traceparent": parent}) is None


@given(st.one_of(st.none(), st.text(), st.lists(st.text()), st.dictionaries(st.text(), st.text()), st.integers()))
def test_no_carrier_is_too_strange(carrier: object) -> None:
    assert sent_context(carrier) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [1, None, "x" * 513, "a=\n", "a=é"])
def test_a_bad_state_is_left_out_and_the_parent_stays(state: object) -> None:
    assert sent_context({"traceparent": VALID, "tracestate": state}) == TraceContext(VALID)


def test_without_a_recorder_steps_are_one_object_that_changes_nothing() -> None:
    params = {"name": "x"}
    with tracing.span("mcphub.policy") as span:
        span.set("a", 1)
        span.is_of_tool("x")
        span.failed("1")
        assert span is tracing.NO_SPAN
        assert span.injected(params) is params
    assert not tracing.is_on()
    assert tracing.of_call() is tracing.NO_SPAN
    assert tracing.sent("tools/call", "x", {}, {}, is_tool=True) is tracing.NO_SPAN
