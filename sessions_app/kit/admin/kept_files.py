"""A file that somebody chose in a form with errors: kept, so that it need not be chosen again.

It waits as a draft does: in the database, one for each login and form, for an hour.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from sessions_app.kit.admin import drafts
from sessions_app.kit.shown import clipped

MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_CHARACTERS: Final = 16 * 1024 * 1024
"""Of the row, where the file stands compressed and as text."""
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    raw: bytes

    @property
    def shown(self) -> str:
        """The name and the size, for people."""
        return f"{self.name} ({filesizeformat(len(self.raw))})"


def keep(request: HttpRequest, place: str, file: UploadedFile[Any]) -> KeptFile | None:
    """Store the file, replacing the previous one; None if it is too large."""
    drafts.drop(request, place)
    if (file.size or 0) > MOST_BYTES:
        return None
    file.seek(0)
    kept = KeptFile(clipped(file.name or "", _LONGEST_NAME), file.read())
    packed = base64.b64encode(zlib.compress(kept.raw, 6)).decode("ascii")
    if len(packed) > _MOST_CHARACTERS:
        return None
    drafts.keep(request, place, {"name": kept.name, "packed": packed})
    return kept


def find(request: HttpRequest, place: str) -> KeptFile | None:
    """Return the stored file; None without one."""
    draft = drafts.find(request, place)
    if draft is None:
        return None
    return KeptFile(draft["name"], zlib.decompress(base64.b64decode(draft["packed"])))
