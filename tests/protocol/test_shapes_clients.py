"""What each revision is sent, read by client libraries of its year."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types import methods

from sessions_app.protocol import shapes
from sessions_app.protocol.revisions import NEWEST, revision
from tests.clients import install
from tests.waiting import PATIENCE_SECONDS

from . import newest

pytestmark = pytest.mark.rig

INITIALIZE = st.builds(lambda value: {**value, "protocolVersion": NEWEST}, newest.INITIALIZE)

ANSWERS = {
    "tools/list": ("ListToolsResult", "tools", newest.TOOL, shapes.tool_for),
    "resources/list": ("ListResourcesResult", "resources", newest.RESOURCE, shapes.resource_for),
    "resources/templates/list": (
        "ListResourceTemplatesResult",
        "resourceTemplates",
        newest.TEMPLATE,
        shapes.template_for,
    ),
    "prompts/list": ("ListPromptsResult", "prompts", newest.PROMPT, shapes.prompt_for),
    "tools/call": ("CallToolResult", None, newest.CALL_RESULT, shapes.result_for),
    "prompts/get": ("GetPromptResult", None, newest.PROMPT_RESULT, shapes.prompt_result_for),
    "resources/read": ("ReadResourceResult", None, newest.READ_RESULT, shapes.read_result_for),
    "initialize": ("InitializeResult", None, INITIALIZE, shapes.initialize_for),
}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def answer(method: str, version: str, data: st.DataObject) -> dict:
    """The result of a method in the shape of a version."""
    _, listed, strategy, convert = ANSWERS[method]
    rev, value = revision(version), data.draw(strategy)
    return convert(rev, value) if listed is None else shapes.result_for(rev, {listed: [convert(rev, value)], **HINTS})


@pytest.fixture(scope="module")
def parse(request: pytest.FixtureRequest) -> Iterator[Callable[[str, dict], str]]:
    """A client library in a process of its own: takes the name of a type and a value, gives its complaint."""
    script = Path(install.__file__).parent / "parse_v1.py"
    command = [str(install.needed(request.param)), str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(name: str, value: dict) -> str:
            process.stdin.write(json.dumps([name, value]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


OF_ITS_YEAR = [("1.2.0", "2024-11-05"), ("1.9.4", "2025-03-26"), ("1.12.4", "2025-06-18"), ("1.30.0", "2025-11-25")]


@pytest.mark.parametrize(("parse", "version"), OF_ITS_YEAR, indirect=["parse"])
@pytest.mark.parametrize("method", ANSWERS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_client_of_the_year_parses_every_answer(parse, version, method, data):
    value = answer(method, version, data)
    assert parse(ANSWERS[method][0], value) == "", value


def test_the_judge_can_say_no():
    """Without conversion the oldest client fails, so the tests above can too."""
    script = Path(install.__file__).parent / "parse_v1.py"
    audio = {"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]}
    done = subprocess.run(
        [str(install.needed("1.2.0")), str(script)],
        input=json.dumps(["CallToolResult", audio]),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert "content" in json.loads(done.stdout)


STRICT = [(method, version) for method in ANSWERS for version in ("2025-11-25", NEWEST)]
STRICT.remove(("initialize", NEWEST))


@pytest.mark.parametrize(("method", "version"), STRICT)
@settings(max_examples=20)
@given(data=st.data())
def test_the_strictest_models_take_every_answer(version, method, data):
    methods.validate_server_result(method, version, answer(method, version, data))
