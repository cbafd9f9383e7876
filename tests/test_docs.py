"""What the documents say is what the code does, as far as a program can tell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from invocations.mapping.error_map import DEFAULTS
from mcphub import clients
from mcphub.features.chat.errors import ERROR_CODES
from sessions_app.protocol import errors
from sessions_app.protocol.errors import HubError
from tests import tool_api
from tools_catalog.backends.http.backend import HttpConfiguration, Service

HOME = Path(__file__).parent.parent
PAGES = [*sorted(HOME.glob("*.md")), *sorted((HOME / "docs").rglob("*.md")), HOME / "tests/seeds/requirements.md"]
NAMED_PATH = re.compile(
    r"(?<![\w/.:-])(?:mcphub|invocations|tools_catalog|sessions_app|tests|benchmarks|docs|deploy|templates)/[\w./*-]*"
)
NO_PATHS = {
    "mcphub/approval",
    "mcphub/idempotencyKey",
    "mcphub/duplicateOf",
    "mcphub/invocationId",
    "mcphub/origin",
    "mcphub/error",
    "mcphub/fitted",
    "mcphub/examples",
    "mcphub/connection",
    "mcphub/quota",
    "benchmarks/results/",
    "docs/start.md",
}
"""Names of MCP's `_meta`, a folder that a command makes, and an example of an argument."""
PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")
NOT_DRAWN = {"migrations/", "management/"}
NOT_IN_A_SESSION = {"header_mismatch", "unsupported_protocol_version"}
NOT_STATELESS = {"session_not_found", "url_elicitation_required"}


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as they are shown on the web."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: str, columns: int) -> dict[str, list[str]]:
    """Return the tables' rows that begin with a word in code type: word -> the cells after it."""
    found = {}
    for line in (HOME / "docs" / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        word = re.fullmatch(r"`([^`]+)`", cells[0])
        if word and len(cells) == columns:
            assert word[1] not in found, word[1]
            found[word[1]] = cells[1:]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_no_mark_of_a_merge_is_left(page: Path) -> None:
    assert not re.search(r"^(<{7}|={7}|>{7})", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target


def test_the_page_for_authors_of_tools_is_that_of_the_code() -> None:
    assert tool_api.PAGE.read_text() == tool_api.page(), "make tool-api"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_paths_that_are_named_exist(page: Path) -> None:
    named = {path.rstrip(".") for path in NAMED_PATH.findall(page.read_text())} - NO_PATHS
    assert sorted(path for path in named if not any(HOME.glob(path))) == []


def test_decisions_are_numbered_in_order_and_those_that_code_cites_exist() -> None:
    page = (HOME / "docs" / "develop" / "decisions.md").read_text()
    titles = re.findall(r"^### (.+)$", page, re.MULTILINE)
    numbers = [re.match(r"([A-Z])(\d+)\. ", title) for title in titles]
    assert all(numbers), "a title without a number"
    places = [(each[1], int(each[2])) for each in numbers if each]
    assert len(set(places)) == len(places)
    by_section = [[number for letter, number in places if letter == section] for section in dict(places)]
    assert all(numbers == sorted(numbers) for numbers in by_section)
    named = set()
    for source in (file for package in PACKAGES for file in (HOME / package).rglob("*.py")):
        named |= set(re.findall(r"decisions\.md, ([A-Z]\d+)", source.read_text()))
    assert named - {f"{letter}{number}" for letter, number in places} == set()


def test_the_drawing_of_the_floors_names_what_is_there() -> None:
    drawing = next(iter(re.findall(r"```text\n(.*?)```", (HOME / "ARCHITECTURE.md").read_text(), re.DOTALL)))
    floor = HOME
    for line in drawing.splitlines():
        if named := re.match(r"[┌├]─ (\w+) ", line):
            floor = HOME / named[1]
        lost = [word for word in re.findall(r"\w+(?:/|\.py)", line) if not (floor / word).exists()]
        assert lost == [], f"{floor.name}: {line}"
    rooms = {f"{made.parent.name}/" for each in PACKAGES for made in HOME.glob(f"{each}/*/__init__.py")}
    assert sorted(room for room in rooms - NOT_DRAWN if room not in drawing) == []


def test_every_variable_is_documented() -> None:
    read = set()
    for source in (HOME / "mcphub").glob("*.py"):
        read |= set(re.findall(r'env\.\w+\(\s*"(MCPHUB_\w+)"', source.read_text()))
    assert len(read) > 20
    names = ("operate/deployment.md", "operate/limits.md", "integrate/tools.md")
    pages = "".join((HOME / "docs" / name).read_text() for name in names)
    assert sorted(name for name in read if f"`{name}`" not in pages) == []


def test_every_limit_is_documented() -> None:
    limits = re.findall(r'limits\.\w+\(\s*"(\w+)"', (HOME / "mcphub" / "settings.py").read_text())
    assert len(limits) > 20
    page = (HOME / "docs" / "operate" / "limits.md").read_text()
    assert sorted(name for name in limits if f"`{name}`" not in page) == []


def test_no_variable_is_made_up() -> None:
    sources = "".join(source.read_text() for source in (HOME / "mcphub").rglob("*.py"))
    for page in PAGES:
        for name in re.findall(r"MCPHUB_[A-Z_]+[A-Z]", page.read_text()):
            assert name in sources or name.startswith("MCPHUB_TEST_"), f"{page.name}: {name}"


def kinds() -> dict[str, type[HubError]]:
    """Return the class of each code: the one that declares it nearest to the root, the abstract roots last."""
    found: dict[str, type[HubError]] = {}
    level: list[type[HubError]] = [HubError]
    roots = {HubError, errors.ProtocolError, errors.Refused, errors.ToolFailure}
    while level:
        for kind in level:
            if kind not in roots and "code" in kind.__dict__:
                found.setdefault(kind.code, kind)
        level = [child for kind in level for child in kind.__subclasses__()]
    return found


def statuses(code: str, kind: type[HubError]) -> tuple[str, str]:
    """Return the HTTP statuses of a code on the stateless path and in a handshake session."""
    if issubclass(kind, errors.ToolFailure):
        return "200", "200"
    if kind.http_status is not None:
        stateless = session = kind.http_status
    else:
        assert issubclass(kind, errors.ProtocolError)
        stateless = errors.HTTP_STATUS[kind.jsonrpc_code]
        # These two are met before a session is: the transport answers them.
        session = 400 if code in ("parse_error", "invalid_request") else 200
    return "-" if code in NOT_STATELESS else str(stateless), "-" if code in NOT_IN_A_SESSION else str(session)


def test_the_table_of_errors_is_that_of_the_code() -> None:
    table = rows("integrate/errors.md", 7)
    assert set(table) == errors.MAPPED_CODES
    for rule in DEFAULTS:
        number, stateless, session, retry, *words = table[rule.internal_code]
        assert (number, retry) == (str(rule.json_rpc_code), "yes" if rule.retryable else "no"), rule.internal_code
        if rule.internal_code in errors.PROVIDER_CODES:
            kind = ERROR_CODES[rule.internal_code.upper()]
            assert (number, stateless, session) == (str(kind.jsonrpc_code), str(kind.http_status), "-")
        else:
            assert (stateless, session) == statuses(rule.internal_code, kinds()[rule.internal_code]), rule.internal_code
        assert all(words), rule.internal_code


def test_documented_http_tools_can_be_read() -> None:
    blocks = re.findall(r"```json\n(.*?)```", (HOME / "docs" / "integrate" / "tools.md").read_text(), re.DOTALL)
    bundles = [json.loads(block) for block in blocks]
    tools = [tool for bundle in bundles for tool in bundle["tools"] if tool["backend"] == "http"]
    services = {each["slug"]: Service(**each) for bundle in bundles for each in bundle.get("services", [])}
    assert len(tools) == 3
    for tool in tools:
        HttpConfiguration.parse(tool["configuration"], services.get(tool["configuration"].get("service")))


@pytest.mark.django_db
def test_documented_resources_and_prompts_can_be_loaded() -> None:
    from tools_catalog.backends import offered
    from tools_catalog.bundles import bundle

    text = (HOME / "docs" / "integrate" / "resources.md").read_text()
    [code], [written] = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "json"))
    registries = (offered.resources, offered.prompts, offered.completions)
    before = [dict(registry) for registry in registries]
    try:
        exec(compile(code, "house_tools/tools.py", "exec"), {"__name__": "house_tools.tools"})
        functions = {
            "resources": [{"function": f"house_tools.tools:{name}"} for name in ("stock", "all_stock")],
            "prompts": [{"function": "house_tools.tools:order"}],
        }
        for document in (json.loads(written), {"format": bundle.FORMAT, **functions}):
            report = bundle.load(document, reason="docs")
            assert (len(report.created), report.refused) == (3, [])
    finally:
        for registry, kept in zip(registries, before, strict=True):
            registry.clear()
            registry.update(kept)


def test_documented_python_tools_can_be_registered() -> None:
    from tools_catalog.backends import python

    code = next(iter(re.findall(r"```python\n(.*?)```", (HOME / "docs/integrate/tools.md").read_text(), re.DOTALL)))
    space: dict[str, object] = {"__name__": "house_tools.tools"}
    before = set(python.registry)
    try:
        exec(compile(code, "house_tools/tools.py", "exec"), space)
        made = {name.partition(":")[2] for name in set(python.registry) - before}
    finally:
        for name in set(python.registry) - before:
            del python.registry[name]
    assert made == {"stock", "restock", "inventory"}


def blocks(page: str) -> set[str]:
    """Return the texts of a page's blocks of code."""
    return set(re.findall(r"^```\w+\n(.*?)\n```$", (HOME / page).read_text(), re.DOTALL | re.MULTILINE))


def test_documented_clients_are_those_that_the_hub_prints_and_shows() -> None:
    url = "http://127.0.0.1:8000/mcp"
    keyed = [*clients.snippets(url, clients.PLACEHOLDER), *clients.programs(url, clients.PLACEHOLDER)]
    texts = {snippet.text for snippet in [*clients.address_only(url), *keyed]}
    assert texts - blocks("docs/start/clients.md") == set()
    command = ["/opt/mcphub/.venv/bin/mcphub", "stdio", "--data-dir", "/srv/mcphub"]
    started = clients.stdio_snippets(command, {"MCPHUB_API_KEY": clients.PLACEHOLDER})
    assert blocks("docs/start/clients.md") - texts <= {snippet.text for snippet in started}
    assert len(blocks("README.md") & texts) == 2
    assert len(blocks("docs/integrate/chat.md") & texts) == 1
