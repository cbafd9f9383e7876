"""JSON values for properties: everything that the strict decoder takes."""

from hypothesis import strategies as st

from sessions_app.protocol import json

INTEGERS = st.integers(json.SMALLEST_INTEGER, json.LARGEST_INTEGER)
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(':\\"{}[]0123456789'))
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=10)
