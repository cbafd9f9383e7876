"""A transport is one declaration: what follows from it, and that the database knows none by name."""

from __future__ import annotations

import io

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command

from invocations.models import McpToolInvocation
from mcphub import routing
from sessions_app import transports
from sessions_app.models import McpSession
from sessions_app.transports import ClientTransport
from tests.factories import McpSessionFactory, McpToolInvocationFactory


@pytest.fixture
def pigeon():
    """A transport of its own, declared as a further one would be."""
    transport = ClientTransport(name="pigeon", label="Carrier pigeon")
    transports.TRANSPORTS[transport.name] = transport
    yield transport
    del transports.TRANSPORTS[transport.name]


def test_every_path_of_a_transport_is_served():
    declared = {path for each in transports.TRANSPORTS.values() for path in (each.path, each.messages_path) if path}
    assert declared == {path for served in routing.SERVED.values() for path in served}
    assert declared <= set(routing.CONSUMERS)
    assert set(routing.AT_TOOLSET) >= {"", "/sse", "/messages"}


def test_a_transport_with_sessions_says_how_they_end():
    with_sessions = {each.name for each in transports.TRANSPORTS.values() if each.session_end}
    assert with_sessions == {"streamable-http", "sse", "stdio", "remote"}


@pytest.mark.django_db
def test_a_further_transport_needs_no_migration(pigeon):
    session = McpSessionFactory(transport=pigeon.name)
    session.full_clean()
    call = McpToolInvocationFactory(session=session, transport=pigeon.name)
    assert (call.get_transport_display(), session.get_transport_display()) == ("Carrier pigeon", "Carrier pigeon")
    assert pigeon.name in dict(McpToolInvocation._meta.get_field("transport").flatchoices)
    call_command("makemigrations", check=True, dry_run=True, stdout=io.StringIO())


@pytest.mark.django_db
def test_a_transport_that_nobody_declared_is_refused_by_the_model():
    with pytest.raises(ValidationError, match="pigeon"):
        McpSession(session_id="x" * 32, transport="pigeon").full_clean()
    assert transports.label_of("pigeon") == "pigeon"
