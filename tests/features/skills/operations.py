"""Edits of a hub's skills, as an operator makes them."""

from __future__ import annotations

from typing import Any

ENTRY = "---\nname: {name}\ndescription: About {name}.\nlicense: MIT\nmetadata:\n  since: 2026-01-02\n---\n\nBe kind.\n"
FILES = {
    "SKILL.md": ENTRY.format(name="refunds"),
    "references/RULES.md": "Rules\r\n",
    "references/a b.txt": "é",
    "partial/SKILL.md": ENTRY.format(name="partial"),
    "partial/x.txt": "x",
}
"""Of a skill with another one in it."""


def add(path: str, files: dict[str, str], nested: list[str] | None = None, **columns: Any) -> int:
    """Add a skill, or a version of it; `workspace`, `groups` and `toolsets` are named. Returns the version."""
    from django.contrib.auth.models import Group

    from mcphub.features.skills import contents
    from mcphub.features.skills.models import Skill
    from sessions_app.models import McpWorkspace
    from tools_catalog.models import McpToolset

    row = Skill.objects.filter(path=path).first() or Skill(path=path)
    row.take(contents.of_files({name: text.encode() for name, text in files.items()}))
    row.nested = nested or []
    row.as_prompt = bool(columns.get("as_prompt"))
    if workspace := columns.get("workspace"):
        row.workspace = McpWorkspace.objects.get(slug=workspace)
    row.full_clean()
    row.save()
    row.groups.set(Group.objects.get_or_create(name=name)[0] for name in columns.get("groups", ()))
    row.toolsets.set(McpToolset.objects.filter(slug__in=columns.get("toolsets", ())))
    return int(row.version)


def remove(path: str) -> None:
    from mcphub.features.skills.models import Skill

    Skill.objects.get(path=path).delete()


def make_toolsets() -> None:
    """Make a toolset with everything, one that chooses nothing, and one that chooses by a pattern."""
    from tools_catalog.models import McpToolset

    McpToolset.objects.create(slug="all", patterns="*")
    McpToolset.objects.create(slug="none", patterns="*", reads="chosen")
    McpToolset.objects.create(slug="some", patterns="*", reads="chosen", read_patterns="skill://acme/*")


def add_many(count: int, files: int) -> None:
    """Add skills with so many files each."""
    for number in range(count):
        name = f"skill-{number}"
        parts = {f"references/part-{part}.md": f"# Part {part} of {name}\n" * 40 for part in range(files - 1)}
        add(f"many/{name}", {"SKILL.md": ENTRY.format(name=name), **parts})
