"""The messages that a program's process may send: all others are rejected."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.programs.outcome import LineRejected, said
from sessions_app.protocol import json


@given(st.binary(max_size=200))
def test_any_line_is_a_message_or_rejected(line: bytes) -> None:
    _read(line)


@given(
    st.dictionaries(
        st.sampled_from(["ask", "id", "name", "text", "print", "done", "failed", "kind", "code", "stack"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9), st.sampled_from(["call", "{}", "[1]"])),
    )
)
def test_any_object_is_a_message_or_rejected(message: dict[str, object]) -> None:
    _read(json.dumps(message))


def _read(line: bytes) -> None:
    with contextlib.suppress(LineRejected):
        said(line)
