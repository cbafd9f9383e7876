"""Skills from the network: one file at an address, through the egress guard, without credentials."""

from __future__ import annotations

import io

from mcphub.features.importers import fetching
from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.skills import contents
from mcphub.features.skills.contents import SkillContents, SkillRefused

SCHEMES = ("https://", "http://")


async def fetched(url: str) -> SkillContents:
    """Return the skill of the zip or SKILL.md at an address. Raises SkillRefused."""
    try:
        raw = await fetching.fetch(url, "skill", "")
    except DocumentRefused as error:
        raise SkillRefused(str(error)) from error
    return contents.of_file(io.BytesIO(raw))
