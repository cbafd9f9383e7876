"""One factory a model: the smallest valid row, no surprises."""

from __future__ import annotations

from datetime import timedelta

import factory
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone

from invocations.models import McpRequestEnvelope, McpTask, McpToolInvocation
from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.models import ApiKey, McpSession, ServerProcess
from tools_catalog.models import (
    HttpService,
    LaunchProfile,
    McpConnection,
    McpPrompt,
    McpResource,
    McpToolDefinition,
    McpToolset,
)


class UserFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = get_user_model()

    username = factory.Sequence("person-{}".format)


class GroupFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Group

    name = factory.Sequence("group-{}".format)


class ApiKeyFactory(factory.django.DjangoModelFactory):
    """A key whose text nobody knows; `ApiKey.issue` gives one that is known."""

    class Meta:
        model = ApiKey

    name = factory.Sequence("key-{}".format)
    prefix = factory.Sequence("mcph_{:08x}".format)
    secret_hash = factory.Sequence("{:064x}".format)
    scopes = factory.LazyFunction(lambda: list(ApiKey.DEFAULT_SCOPES))


class ServerProcessFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = ServerProcess

    process_id = factory.Sequence("process-{}".format)
    version = "1.0.0"
    status = ServerProcess.Status.RUNNING
    host = "host"
    pid = 4242


class McpSessionFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpSession

    session_id = factory.Sequence("session-{}".format)
    transport = "streamable-http"
    state = McpSession.State.INITIALIZED
    principal = "key:1"
    client_name = "client"
    created_at = factory.LazyFunction(timezone.now)
    initialized_at = factory.SelfAttribute("created_at")
    last_activity_at = factory.SelfAttribute("created_at")


class McpToolDefinitionFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpToolDefinition

    name = factory.Sequence("tool-{}".format)
    description = "Does nothing."
    input_schema = factory.LazyFunction(lambda: {"type": "object"})
    backend = "http"
    configuration = factory.LazyFunction(lambda: {"url": "https://api.example.org/v1"})
    timeout_seconds = 30.0  # as it is read back: the version's digest tells 30 from 30.0


class McpConnectionFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpConnection

    slug = factory.Sequence("upstream{}".format)
    transport = "streamable-http"
    url = "https://mcp.example.org/mcp"


class LaunchProfileFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = LaunchProfile

    name = factory.Sequence("profile{}".format)
    command = "mcp-server-example"


class HttpServiceFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = HttpService

    slug = factory.Sequence("service{}".format)
    url = "https://api.example.org/v1"


class McpToolsetFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpToolset

    slug = factory.Sequence("toolset{}".format)


class McpResourceFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpResource

    uri = factory.Sequence("test://resource/{}".format)
    name = "resource"
    mime_type = "text/plain"
    content = "Some text."


class McpPromptFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpPrompt

    name = factory.Sequence("prompt-{}".format)
    messages = factory.LazyFunction(lambda: [{"role": "user", "content": "Say something."}])


class McpRequestEnvelopeFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = McpRequestEnvelope

    invocation_id = factory.Sequence("invocation-{}".format)
    session = factory.SubFactory(McpSessionFactory)
    process = factory.SubFactory(ServerProcessFactory)
    request_id = 1
    method = "tools/call"
    params = factory.LazyFunction(lambda: {"name": "echo", "arguments": {}})
    tool_name = "echo"
    tool_version = "1"
    tool_digest = "0" * 64
    principal = "key:1"


class McpToolInvocationFactory(factory.django.DjangoModelFactory):
    """A call that went well; `failed=True` for one that did not."""

    class Meta:
        model = McpToolInvocation

    class Params:
        failed = factory.Trait(
            status="error",
            result=None,
            error={"code": -31033, "message": "The tool failed.", "data": {}},
            error_code="execution_error",
            jsonrpc_code=-31033,
            retryable=False,
        )

    invocation_id = factory.Sequence("invocation-{}".format)
    session = factory.SubFactory(McpSessionFactory)
    process = factory.SubFactory(ServerProcessFactory)
    request_id = factory.Sequence(lambda number: number)
    tool_name = "echo"
    tool_version = "1"
    tool_digest = "0" * 64
    arguments = factory.LazyFunction(lambda: {"text": "hello"})
    arguments_digest = "0" * 64
    status = "ok"
    result = factory.LazyFunction(lambda: {"content": [{"type": "text", "text": "hello"}]})
    received_at = factory.LazyFunction(timezone.now)
    started_at = factory.SelfAttribute("received_at")
    finished_at = factory.LazyAttribute(lambda row: row.started_at + timedelta(milliseconds=row.duration_ms))
    duration_ms = 5
    transport = "streamable-http"
    principal = "key:1"
    client_name = "client"


class McpTaskFactory(factory.django.DjangoModelFactory):
    """A task that works; `over=True` for one that completed."""

    class Meta:
        model = McpTask

    class Params:
        over = factory.Trait(
            state="completed",
            result={"content": [{"type": "text", "text": "hello"}]},
            finished_at=factory.SelfAttribute("created_at"),
        )

    task_id = factory.Sequence("task-{}".format)
    invocation_id = factory.Sequence("invocation-of-task-{}".format)
    principal = "key:1"
    session = factory.SubFactory(McpSessionFactory)
    process = factory.SubFactory(ServerProcessFactory)
    tool_name = "echo"
    ttl_ms = 3_600_000
    poll_ms = 1000
    created_at = factory.LazyFunction(timezone.now)
    expires_at = factory.LazyAttribute(lambda row: row.created_at + timedelta(milliseconds=row.ttl_ms))


class ErrorGroupFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = ErrorGroup

    key = factory.Sequence(lambda number: f"{number:064x}")
    tool_name = "echo"
    error_code = "execution_error"
    message = "no row <number>"
    calls = 3
    first_at = factory.LazyFunction(timezone.now)
    last_at = factory.LazyFunction(timezone.now)
    first_sequence = 1
    last_sequence = 3
    hours = factory.LazyFunction(lambda: {f"{timezone.now():%Y-%m-%dT%H}": 3})
    days = factory.LazyFunction(lambda: {f"{timezone.now():%Y-%m-%d}": 3})
    callers = factory.LazyFunction(lambda: {"key:1": ["laptop", 3]})
