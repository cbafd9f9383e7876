"""The life of a handshake session."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.lifecycle import TERMINAL, TRANSITIONS, LifecycleError, SessionEvent, SessionState, advance


def test_states_are_stored_under_their_seed_names():
    assert [state.value for state in SessionState] == ["created", "initialized", "closed", "expired"]


def test_closed_and_expired_are_terminal():
    assert frozenset({SessionState.CLOSED, SessionState.EXPIRED}) == TERMINAL


@pytest.mark.parametrize(("state", "event"), list(product(SessionState, SessionEvent)))
def test_only_the_table_moves_a_session(state, event):
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(LifecycleError, match=state.value) as caught:
            advance(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


@given(st.lists(st.sampled_from(SessionEvent)))
def test_every_path_ends_closed_and_stays_there(events):
    state = SessionState.CREATED
    ended = None
    for event in [*events, SessionEvent.CLOSE]:
        try:
            state = advance(state, event)
        except LifecycleError:
            assert state in TERMINAL or event is SessionEvent.INITIALIZE
        assert ended is None or state is ended
        ended = state if state in TERMINAL else None
    assert state in TERMINAL
