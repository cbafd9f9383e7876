"""Hidden characters in a skill's files, phrases that address models over their user's head, links that fetch."""

from __future__ import annotations

import re
from functools import lru_cache

from mcphub.features.skills import contents
from mcphub.features.skills.models import SkillContent, SkillVersion
from tools_catalog.detectors.definitions import sentence, warnings

_FETCHING = re.compile(
    r"!\[[^\[\]\n]{0,1000}\]\(\s{0,10}<?https?://|<(?:img|iframe|video|audio|source|embed|link|script)\b[^<>]{0,1000}?\bhttps?://",
    re.I,
)
"""Links that clients with Markdown fetch without a question: an address there may carry away the words of a model."""


def findings(version: SkillVersion) -> dict[str, str]:
    """Return the findings of each text file that has any, by its path: `zero_width 2, override 1`."""
    files = version.files.order_by("path").values_list("path", "content_id")
    return {path: found for path, digest in files if (found := _found(digest))}


@lru_cache(maxsize=4096)  # contents with one digest are the same
def _found(digest: str) -> str:
    return sentence(kinds_in(bytes(SkillContent.objects.values_list("raw", flat=True).get(pk=digest))))


def kinds_in(raw: bytes) -> dict[str, int]:
    """Return how often which kind is found in a file."""
    text = contents.text_of(raw)
    if text is None:
        return {}
    found = warnings({"text": text})
    if fetching := len(_FETCHING.findall(text)):
        found["fetching_link"] = fetching
    return found
