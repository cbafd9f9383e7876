"""URI templates taken apart: what was put in comes out, and nothing else matches."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import uritemplate

NAMES = ["a", "b_2", "c.d", "%41"]
VALUES = st.text("ab-._~/?#&=,;: é%", min_size=1, max_size=8)


@st.composite
def made(draw):
    """A template, its values, and the URI that RFC 6570 makes of them."""
    template, uri, values = "hub://x", "hub://x", {}
    count = draw(st.integers(0, 4))
    for name in NAMES[:count]:
        operator = draw(st.sampled_from(["/", ";"]))
        value = draw(VALUES)
        # After `;` and `/` no unreserved character of a value can be taken for what follows.
        template += f"{{{operator}{name}}}"
        uri += (f";{name}=" if operator == ";" else "/") + quote(value, safe="")
        values[name] = value
    if draw(st.booleans()):
        template, uri, values = template + "/end{?q,r}", uri + "/end", {**values}
        given_names = draw(st.permutations(["q", "r"]))[: draw(st.integers(0, 2))]
        for mark, name in zip("?&", given_names, strict=False):
            values[name] = draw(VALUES | st.just(""))
            uri += f"{mark}{name}={quote(values[name], safe='')}"
    return template, uri, values


@given(made())
def test_values_come_out_as_they_were_put_in(case):
    template, uri, values = case
    assert uritemplate.parse(template).match(uri) == values


@given(st.text("hub:/x{}?&#%41é ab", max_size=20), st.text("hub:/x?&#%41é ab\x00", max_size=30))
def test_whatever_is_asked_the_answer_is_values_or_none(text, uri):
    try:
        template = uritemplate.parse(text)
    except ValueError:
        return
    values = template.match(uri)
    assert values is None or set(values) <= set(template.names)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("docs://start", "docs://start", {}),
        ("docs://start", "docs://start/", None),
        ("docs://{page}", "docs://one", {"page": "one"}),
        ("docs://{page}", "docs://one/two", None),
        ("docs://{page}", "docs://", None),
        ("docs://{page}", "docs://one%2Ftwo", {"page": "one/two"}),
        ("docs://{page}", "docs://%zz", None),
        ("docs://{page}", "docs://%ff", None),
        ("docs://{page:3}", "docs://one", {"page": "one"}),
        ("docs://{page:3}", "docs://four", None),
        ("docs://{a}-{b}", "docs://1-2-3", {"a": "1", "b": "2-3"}),
        ("docs://{a,b}", "docs://1,2", {"a": "1", "b": "2"}),
        ("file://{+path}/data", "file://a/data/data", {"path": "a/data"}),
        ("file://{+path}/data", "file://data", None),
        ("docs:/{/path*}", "docs://a/b/c", {"path": "a/b/c"}),
        ("docs://{path*}", "docs://a/b%20c/d.md", {"path": "a/b c/d.md"}),
        ("docs://{path*}", "docs://a", {"path": "a"}),
        ("docs://{path*}", "docs://a?b", None),
        ("docs://{owner}/{path*}", "docs://me/a,b/c", {"owner": "me", "path": "a,b/c"}),
        ("docs://{+path*}", "docs://a/b?c", {"path": "a/b?c"}),
        ("docs://x{.kind}", "docs://x.json", {"kind": "json"}),
        ("docs://x{#part}", "docs://x#a/b", {"part": "a/b"}),
        ("docs://x{?q}", "docs://x", {}),
        ("docs://x{?q}", "docs://x?q=1&q=2", None),
        ("docs://x{?q}", "docs://x?other=1", None),
        ("docs://x?fixed=1{&q}", "docs://x?fixed=1&q=2", {"q": "2"}),
        ("docs://x?fixed=1{&q}", "docs://x?q=2", None),
        ("docs://x?a=1&b=2{&q}", "docs://x?a=1&b=2", {}),
        ("docs://{page}{?q}{&r}", "docs://one?r=2", {"page": "one", "r": "2"}),
    ],
)
def test_what_matches(template, uri, values):
    assert uritemplate.parse(template).match(uri) == values


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("docs://{", "cannot stand"),
        ("docs://{}", "{name}"),
        ("docs://{a b}", "{name}"),
        ("docs://{=a}", "{name}"),
        ("docs://{a}{b}", "Put text between {a} and {b}"),
        ("docs://{a}/{a}", "twice"),
        ("docs://x{?a*}", "{/path*}"),
        ("docs://{?a}/b", "only {&…}"),
        ("docs://{?a}{b}", "only {&…}"),
        ("docs:// x", "cannot stand"),
        ("docs://{a:0}", "{name}"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_a_reason(text, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        uritemplate.parse(text)


def test_a_long_uri_against_many_variables_is_read_once():
    template = uritemplate.parse("x:" + "".join(f"-{{v{number}}}" for number in range(200)) + "!")
    assert template.match("x:" + "-" * 100_000) is None


def test_the_template_that_says_more_is_known_by_its_fixed_characters():
    assert (
        uritemplate.parse("docs://a/{x}").fixed_characters
        > uritemplate.parse("docs:/{/x*}").fixed_characters
        > uritemplate.parse("{+x}").fixed_characters
    )
