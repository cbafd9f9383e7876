"""Which prompts and resources a toolset has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.caller import Caller
from sessions_app.protocol.errors import PromptNotFound
from tests.factories import McpToolsetFactory
from tools_catalog.bundles import bundle
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpPrompt, McpResource, McpToolset

pytestmark = pytest.mark.django_db

ANYBODY = Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset(), sees_everything=False)
NEWEST = "2026-07-28"


@pytest.fixture(autouse=True)
def rows() -> None:
    McpPrompt.objects.all().delete()
    McpResource.objects.all().delete()
    for name in ("review_code", "review_text", "greet"):
        McpPrompt.objects.create(name=name, messages=[{"role": "user", "content": "Hi"}])
    for uri in ("docs://start", "docs://chapter/{number}", "notes://today"):
        McpResource.objects.create(uri=uri, name="x", content="text")


def listed(listing: Any, member: str, key: str) -> list[str]:
    return [entry[key] for entry in json.loads(listing.page(ANYBODY, NEWEST))[member]]


def test_a_toolset_has_all_of_the_hub_unless_it_chooses() -> None:
    McpToolsetFactory(slug="few", read_patterns="nothing")
    toolset, prompts, resources = Catalog.load().toolsets["few"], Prompts.load(), Resources.load()
    assert toolset.prompts_of(prompts) is prompts
    assert toolset.resources_of(resources) is resources


def test_a_toolset_has_the_prompts_and_resources_that_it_chooses() -> None:
    row = McpToolsetFactory(slug="few", reads="chosen", read_patterns="review_* docs://*")
    row.prompts.set(McpPrompt.objects.filter(name="greet"))
    row.resources.set(McpResource.objects.filter(uri="notes://today"))
    toolset = Catalog.load().toolsets["few"]
    prompts, resources = toolset.prompts_of(Prompts.load()), toolset.resources_of(Resources.load())
    assert listed(prompts.listing, "prompts", "name") == ["greet", "review_code", "review_text"]
    assert listed(resources.listing, "resources", "uri") == ["docs://start", "notes://today"]
    assert listed(resources.templates, "resourceTemplates", "uriTemplate") == ["docs://chapter/{number}"]
    row.read_patterns = "docs://*"
    row.save()
    with pytest.raises(PromptNotFound):
        Catalog.load().toolsets["few"].prompts_of(Prompts.load()).find("review_code", ANYBODY)


def test_what_is_not_chosen_is_not_read_by_its_template() -> None:
    McpToolsetFactory(slug="few", reads="chosen", read_patterns="docs://start")
    resources = Catalog.load().toolsets["few"].resources_of(Resources.load())
    assert resources.find("docs://start", ANYBODY) is not None
    assert resources.find("docs://chapter/3", ANYBODY) is None


def test_a_bundle_carries_the_choice() -> None:
    row = McpToolsetFactory(slug="few", reads="chosen", read_patterns="docs://*")
    row.prompts.set(McpPrompt.objects.filter(name="greet"))
    dumped = json.loads(json.dumps(bundle.dump()))
    row.delete()
    assert bundle.load(dumped, reason="x").created == ["few"]
    again = McpToolset.objects.get()
    assert (again.reads, again.read_patterns, [each.name for each in again.prompts.all()]) == (
        "chosen",
        "docs://*",
        ["greet"],
    )


def test_rest_takes_the_choice(admin_client: Any) -> None:
    given = {"slug": "few", "reads": "chosen", "prompts": ["greet"], "resources": ["docs://start"]}
    made = admin_client.post("/api/toolsets/", given, content_type="application/json")
    assert (made.status_code, made.json()["prompts"], made.json()["resources"]) == (201, ["greet"], ["docs://start"])
    wrong = admin_client.patch("/api/toolsets/few/", {"prompts": ["nobody"]}, content_type="application/json")
    assert (wrong.status_code, "nobody" in wrong.content.decode()) == (409, True)
