"""Skills as they come in: the files of a zip, of a folder, or one SKILL.md; checked and bounded. Pure.

Rules of names and frontmatter are those of the Agent Skills specification, bounds those of MCP's extension (SEP-2640).
"""

from __future__ import annotations

import codecs
import hashlib
import io
import lzma
import mimetypes
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from django.utils.translation import gettext as _t

from mcphub.features.importers import documents
from sessions_app.protocol import json

ENTRY = "SKILL.md"
SCHEME = "skill://"
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
"""Of all files of a skill. Clients must accept so much, and may refuse more (SEP-2640, Limits)."""
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_PATH = 300
LONGEST_FRONTMATTER = 64 * 1024
_LONGEST_COMPATIBILITY = 500
_LARGEST_FILE = MOST_BYTES + 1024 * 1024
"""Bytes of a zip: the bytes besides its files are few."""
_MOST_ENTRIES = 4 * MOST_FILES
"""Of a zip, with those that are left out."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_FENCE = re.compile(rb"---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that no page shows, or that change what stands around them."""
_PLAIN_IN_PATHS = "/-._~!$&'()*+,;=:@"
"""Characters that stand for themselves in paths of URIs (RFC 3986), besides letters and digits."""
_UNREADABLE_ZIP = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)
_LEFT_OUT = frozenset({"__MACOSX", "__pycache__"})
_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml"}
_PLAIN = mimetypes.MimeTypes()
"""The types that Python knows itself: those of the machine would differ between hubs."""


class Readable(Protocol):
    """An open file of bytes."""

    def read(self, size: int, /) -> bytes: ...


class SkillRefused(ValueError):
    """The files are no skill that can be served; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SkillContents:
    """The files of one skill by path, and the frontmatter of its SKILL.md."""

    files: Mapping[str, bytes]
    frontmatter: dict[str, Any]
    left_out: tuple[str, ...] = ()
    """Hidden files and the like, which were not taken."""

    @property
    def name(self) -> str:
        return str(self.frontmatter["name"])

    @property
    def nested(self) -> list[str]:
        """Return the folders inside that are skills themselves."""
        return sorted(path.removesuffix(f"/{ENTRY}") for path in self.files if path.endswith(f"/{ENTRY}"))


def of_file(file: Readable) -> SkillContents:
    """Return the skill of an open file, a zip or a SKILL.md. Raises SkillRefused, as all readers here."""
    raw = file.read(_LARGEST_FILE + 1)
    if len(raw) > _LARGEST_FILE:
        raise SkillRefused(_t("The file is larger than %(most)d bytes.") % {"most": _LARGEST_FILE})
    return of_zip(raw) if raw.startswith(b"PK") else of_text(raw)


def of_text(text: str | bytes) -> SkillContents:
    """Return the skill of one SKILL.md."""
    return of_files({ENTRY: text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text})


def of_zip(raw: bytes) -> SkillContents:
    """Return the skill of a zip, whose files are at its top or in one folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return _of_all(_unzipped(archive))
    except SkillRefused:
        raise
    except _UNREADABLE_ZIP as error:
        raise SkillRefused(_t("This zip file can't be read: %(why)s") % {"why": str(error)[:200]}) from error


def of_folder(folder: Path) -> SkillContents:
    """Return the skill of a folder of this machine. Links are refused, wherever they lead."""
    return _of_all(_walked(folder))


def of_files(files: Mapping[str, bytes], left_out: Iterable[str] = ()) -> SkillContents:
    """Return the skill of files by path."""
    if ENTRY not in files:
        raise SkillRefused(_t("There is no SKILL.md at the top."))
    if len(files) > MOST_FILES:
        raise SkillRefused(_t("A skill has at most %(most)d files.") % {"most": MOST_FILES})
    alike: dict[str, str] = {}
    for path in files:
        check_path(path)
        # A client's file system may take them for one, and then read another file than the one that was approved.
        other = alike.setdefault(unicodedata.normalize("NFKC", path).casefold(), path)
        if other != path:
            words = _t("%(path)s and %(other)s are the same file on some file systems. Rename one.")
            raise SkillRefused(words % {"path": _shown(path), "other": _shown(other)})
        if any("/".join(path.split("/")[:end]) in files for end in range(1, path.count("/") + 1)):
            raise SkillRefused(_t("%(path)s is below a path that is itself a file.") % {"path": _shown(path)})
    if sum(map(len, files.values())) > MOST_BYTES:
        raise SkillRefused(_t("The files of a skill are at most %(most)d bytes together.") % {"most": MOST_BYTES})
    found = SkillContents(dict(sorted(files.items())), frontmatter_of(files[ENTRY]), tuple(left_out))
    for folder in found.nested:
        try:
            nested = frontmatter_of(files[f"{folder}/{ENTRY}"])
        except SkillRefused as error:
            raise SkillRefused(f"{_shown(folder)}/{ENTRY}: {error}") from error
        if nested["name"] != folder.rpartition("/")[2]:
            words = _t("%(folder)s: its SKILL.md names the skill %(name)s. Both must be the same.")
            raise SkillRefused(words % {"folder": _shown(folder), "name": nested["name"]})
    return found


def frontmatter_of(raw: bytes) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md as its author wrote it."""
    found = _read(_written(raw))
    check_frontmatter(found)
    return found


def reading_of(raw: bytes, described: dict[str, Any]) -> dict[str, Any] | None:
    """Return the frontmatter of a SKILL.md as an entry describes it; None where the entry is of other words.

    Servers read YAML by version 1.2 or 1.1, and with or without the line break at the end of its last text, and write
    1.0 as 1. The first reading that agrees is returned. Raises SkillRefused.
    """
    written = _written(raw)
    wanted = _comparable(described)
    for found in (_read(written), *(_read(each, is_yaml_1_1=True) for each in (written, written.rstrip(b"\r\n")))):
        if _comparable(found) == wanted:
            return found
    return None


def _written(raw: bytes) -> bytes:
    """Return the YAML of a SKILL.md."""
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillRefused(_t("SKILL.md is not UTF-8 text.")) from error
    if "\x00" in text:
        raise SkillRefused(_t("SKILL.md contains a NUL character."))
    fenced = _FENCE.match(raw)
    if fenced is None:
        raise SkillRefused(_t("SKILL.md must begin with frontmatter: YAML between two lines of ---."))
    written = fenced.group(1) or b""
    if len(written) > LONGEST_FRONTMATTER:
        raise SkillRefused(_t("The frontmatter is longer than %(most)d bytes.") % {"most": LONGEST_FRONTMATTER})
    return written


def _read(written: bytes, *, is_yaml_1_1: bool = False) -> dict[str, Any]:
    try:
        return documents.read(written, is_yaml_1_1=is_yaml_1_1)
    except documents.DocumentRefused as error:
        raise SkillRefused(_t("The frontmatter cannot be read. %(why)s") % {"why": error}) from error


def _comparable(value: Any) -> str:
    return json.canonical(_whole(value))


def _whole(value: Any) -> Any:
    """Return JSON with whole numbers as integers: 1.0 and 1 are one number there."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value


def check_place(place: str, name: str) -> None:
    """Refuse the path of a skill that its files cannot be served at: it ends with the name."""
    segments = place.split("/")
    if len(place) > LONGEST_PATH or not all(_SEGMENT.fullmatch(each) and each.strip(".") for each in segments):
        raise SkillRefused(_t("Enter a path such as acme/billing/refunds: letters, digits, . _ ~ - between /."))
    if segments[-1] != name:
        raise SkillRefused(_t("The path must end with the name in SKILL.md: %(name)s.") % {"name": name})


def uri_of(place: str, path: str = ENTRY) -> str:
    """Return the URI of a skill's file."""
    return f"{SCHEME}{place}/{quote(path, safe=_PLAIN_IN_PATHS)}"


def path_of(uri: str, root: str) -> str:
    """Return the path of a file within a skill's directory: `uri_of` backwards."""
    return unquote(uri.removeprefix(f"{root}/"))


def digest_of(raw: bytes) -> str:
    """Return the digest of a file, as manifests have it."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def media_type_of(path: str, raw: bytes) -> str:
    """Return the media type of a file, by its name and by whether it is text."""
    ending = os.path.splitext(path)[1].lower()
    known = _TYPES.get(ending) or _PLAIN.types_map[True].get(ending)
    if known is not None:
        return known
    return "application/octet-stream" if text_of(raw) is None else "text/plain"


def text_of(raw: bytes) -> str | None:
    """Return a file as the text that it is; None for other bytes."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def check_frontmatter(found: dict[str, Any]) -> None:
    name, description = found.get("name"), found.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise SkillRefused(
            _t("The name in the frontmatter must be 1 to %(most)d lowercase letters, digits and single hyphens.")
            % {"most": LONGEST_NAME}
        )
    if not isinstance(description, str) or not description.strip() or len(description) > LONGEST_DESCRIPTION:
        words = _t("The description in the frontmatter must be a string of 1 to %(most)d characters.")
        raise SkillRefused(words % {"most": LONGEST_DESCRIPTION})
    compatibility = found.get("compatibility", "-")
    if not isinstance(compatibility, str) or not 0 < len(compatibility) <= _LONGEST_COMPATIBILITY:
        words = _t("compatibility in the frontmatter must be a string of 1 to %(most)d characters.")
        raise SkillRefused(words % {"most": _LONGEST_COMPATIBILITY})
    # Clients reject a whole list for one entry with another type.
    if not isinstance(found.get("license", ""), str):
        raise SkillRefused(_t("license in the frontmatter must be a string. Quote it, or leave it out."))
    tools = found.get("allowed-tools", [])
    if not isinstance(tools, str) and not _are_texts(tools):
        raise SkillRefused(_t("allowed-tools in the frontmatter must be a string or a list of strings."))
    metadata = found.get("metadata", {})
    if not isinstance(metadata, dict) or not _are_texts([*metadata.values()]):
        raise SkillRefused(_t('metadata in the frontmatter must map names to strings. Quote numbers: version: "1.0".'))
    try:
        length = len(json.canonical(found))
    except ValueError as error:
        raise SkillRefused(_t("The frontmatter cannot be read. %(why)s") % {"why": error}) from error
    if length > LONGEST_FRONTMATTER:
        raise SkillRefused(_t("The frontmatter is longer than %(most)d bytes.") % {"most": LONGEST_FRONTMATTER})


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def check_path(path: str) -> None:
    """Refuse a path that leaves the skill, or that a file system or a URI would read as another one."""
    parts = path.split("/")
    if (
        not path
        or len(path) > LONGEST_PATH
        or any(unicodedata.category(char) in _UNSEEN for char in path)
        or "\\" in path
        or re.match(r"[A-Za-z]:", path)
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise SkillRefused(
            _t("%(path)s is not a path within a skill. Use relative paths with / of at most %(most)d characters.")
            % {"path": _shown(path), "most": LONGEST_PATH}
        )


@dataclass(frozen=True, slots=True)
class _FoundFile:
    """A file as it is found, before it is read."""

    path: str
    bytes_: int
    is_link: bool
    read: Any


def _of_all(found: Iterable[_FoundFile]) -> SkillContents:
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    left, count = MOST_BYTES, 0
    for each in found:
        count += 1
        if count > _MOST_ENTRIES or len(files) > MOST_FILES:
            raise SkillRefused(_t("A skill has at most %(most)d files.") % {"most": MOST_FILES})
        check_path(each.path)
        if each.is_link:
            words = _t("%(path)s is a link or a special file. A skill has ordinary files only.")
            raise SkillRefused(words % {"path": _shown(each.path)})
        if any(part.startswith(".") or part in _LEFT_OUT for part in each.path.split("/")):
            left_out.append(each.path)
            continue
        if each.path in files:
            raise SkillRefused(_t("%(path)s is there twice.") % {"path": _shown(each.path)})
        # Sizes that are declared may be wrong, so what is read is bounded too.
        raw = each.read(left + 1) if each.bytes_ <= left else b""
        if each.bytes_ > left or len(raw) > left:
            words = _t("The files of a skill are at most %(most)d bytes together.")
            raise SkillRefused(words % {"most": MOST_BYTES})
        left -= len(raw)
        files[each.path] = raw
    return of_files(_without_folder(files), left_out)


def _without_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files without the one folder that they are all in."""
    tops = {path.partition("/")[0] for path in files}
    if ENTRY in files or len(tops) != 1 or any("/" not in path for path in files):
        return files
    return {path.partition("/")[2]: raw for path, raw in files.items()}


def _unzipped(archive: zipfile.ZipFile) -> Iterator[_FoundFile]:
    for entry in archive.infolist():
        if entry.flag_bits & 0x1:
            raise SkillRefused(_t("The zip is encrypted. Upload one without a password."))
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() and kind in (0, stat.S_IFDIR):
            continue

        def read(most: int, entry: zipfile.ZipInfo = entry) -> bytes:
            with archive.open(entry) as file:
                return file.read(most)

        # ZipInfo ends names at a NUL and turns the separators of the machine; the name as stored is what counts.
        yield _FoundFile(entry.orig_filename, entry.file_size, kind not in (0, stat.S_IFREG), read)


def _walked(folder: Path) -> Iterator[_FoundFile]:
    for base, folders, names in os.walk(folder):
        here = Path(base)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted([*names, *links]):
            file = here / name
            state = file.lstat()

            def read(most: int, file: Path = file) -> bytes:
                with file.open("rb") as opened:
                    return opened.read(most)

            yield _FoundFile(file.relative_to(folder).as_posix(), state.st_size, not stat.S_ISREG(state.st_mode), read)


def _shown(path: str) -> str:
    return "".join("�" if unicodedata.category(char) in _UNSEEN else char for char in path[:100])
