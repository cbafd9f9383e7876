"""Hidden characters in a skill's files, and phrases that address models over their user's head."""

from __future__ import annotations

from functools import lru_cache

from mcphub.features.skills import contents
from mcphub.features.skills.models import SkillContent, SkillVersion
from tools_catalog.detectors.definitions import sentence, warnings


def findings(version: SkillVersion) -> dict[str, str]:
    """Return the findings of each text file that has any, by its path: `zero_width 2, override 1`."""
    files = version.files.order_by("path").values_list("path", "content_id")
    return {path: found for path, digest in files if (found := _found(digest))}


@lru_cache(maxsize=4096)  # contents with one digest are the same
def _found(digest: str) -> str:
    text = contents.text_of(bytes(SkillContent.objects.values_list("raw", flat=True).get(pk=digest)))
    return "" if text is None else sentence(warnings({"text": text}))
