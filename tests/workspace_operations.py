"""Two teams in one hub, as `Hub.operate` makes them: rows of each, rows of nobody, and who may come by which way."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction


@transaction.atomic
def make(slugs: Sequence[str]) -> dict[str, str]:
    """Make a workspace for each name, with a tool, a toolset, a prompt, a resource and a rule; give texts of keys.

    `<slug>`: a key of the workspace. `<slug> person`: one of a person who is a member, for the whole hub. `stranger`:
    one of nobody.
    """
    from django.contrib.auth.models import Group, User

    from mcphub.features.call_rules.models import McpPolicyRule
    from sessions_app.models import ApiKey, McpWorkspace
    from tools_catalog.backends import python
    from tools_catalog.models import McpPrompt, McpResource, McpToolDefinition, McpToolset

    told = python.definition("tools_catalog.packs.starter.tools:echo")
    scopes = list(ApiKey.DEFAULT_SCOPES)
    texts = {"stranger": ApiKey.issue("stranger", scopes=scopes)[1]}
    for slug in slugs:
        group = Group.objects.create(name=f"{slug} members")
        own = McpWorkspace.objects.create(slug=slug)
        own.members.add(group)
        McpToolDefinition.objects.create(
            name=f"{slug}.echo",
            description=told["description"],
            input_schema=told["inputSchema"],
            backend="python",
            configuration=told["configuration"],
            read_only=False,
            destructive=False,
            workspace=own,
        )
        McpToolset.objects.create(slug=f"{slug}-set", patterns="*", mode="search", workspace=own)
        McpPrompt.objects.create(name=f"{slug}.prompt", messages=[{"role": "user", "content": "Hi"}], workspace=own)
        McpResource.objects.create(uri=f"docs://{slug}/start", name=slug, content="Words", workspace=own)
        McpPolicyRule.objects.create(
            name=f"{slug}-rule", effect="deny", condition="args.text == 'no'", words=f"{slug} says no", workspace=own
        )
        texts[slug] = ApiKey.issue(slug, scopes=scopes, workspace=own)[1]
        person = User.objects.create(username=f"{slug}-member")
        person.groups.add(group)
        key, texts[f"{slug} person"] = ApiKey.issue(f"{slug} person", scopes=scopes, owner=person)
        key.groups.add(group)
    return texts


def leave(person: str) -> None:
    """Take somebody out of all groups."""
    from django.contrib.auth.models import User

    User.objects.get(username=person).groups.clear()


def auditor(slug: str) -> str:
    """Return a key of a workspace that calls tools and reads the audit."""
    from sessions_app.models import ApiKey, McpWorkspace

    own = McpWorkspace.objects.get(slug=slug)
    return ApiKey.issue(f"{slug} auditor", scopes=["tools:list", "tools:call", "audit:read"], workspace=own)[1]


def refuse_secrets(name: str) -> None:
    from mcphub.features.guardrails.models import McpGuardrail

    McpGuardrail.objects.create(
        name=name, applies_to="tool", target="echo", detectors="secrets", action="refuse", direction="arguments"
    )


def allow_secrets(name: str) -> None:
    from mcphub.features.guardrails.models import McpGuardrail

    McpGuardrail.objects.filter(name=name).delete()
