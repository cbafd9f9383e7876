"""Skills that are accepted and refused: files, paths, zips and frontmatter."""

from __future__ import annotations

import codecs
import hashlib
import io
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.skills import contents
from mcphub.features.skills.contents import SkillRefused

TEXT = "---\nname: refunds\ndescription: Give money back.\n---\n\nBe kind.\n"


def zipped(files: dict[str, bytes], **modes: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = modes.get(name.replace(".", "_"), stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, raw, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def test_frontmatter_is_kept_as_it_was_written() -> None:
    found = contents.of_text(
        "---\nname: refunds\ndescription: >\n  Give\n  money back.\nlicense: Apache-2.0\ncountry: NO\n"
        "since: 2026-01-02\nmetadata: {version: '1.10', io.modelcontextprotocol/x: '1'}\n"
        "allowed-tools: Bash(git:*) Read\n---\n"
    )
    assert found.frontmatter == {
        "name": "refunds",
        "description": "Give money back.\n",
        "license": "Apache-2.0",
        "country": "NO",
        "since": "2026-01-02",
        "metadata": {"version": "1.10", "io.modelcontextprotocol/x": "1"},
        "allowed-tools": "Bash(git:*) Read",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# No frontmatter",
        "---\nname: refunds\n",
        "---\nname: refunds\n---\n",
        "---\nname: Refunds\ndescription: d\n---\n",
        "---\nname: a--b\ndescription: d\n---\n",
        f"---\nname: {'a' * 65}\ndescription: d\n---\n",
        "---\nname: refunds\ndescription: ''\n---\n",
        f"---\nname: refunds\ndescription: {'d' * 1025}\n---\n",
        "---\nname: refunds\ndescription: d\ncompatibility: [x]\n---\n",
        "---\nname: refunds\ndescription: !!python/object:os.system d\n---\n",
        "---\n- name\n---\n",
        "---\nname: refunds\ndescription: d\n---\n\x00",
        "---\nname: refunds\ndescription: d\nlicense:\n---\n",
        "---\nname: refunds\ndescription: d\nallowed-tools: [1]\n---\n",
        "---\nname: refunds\ndescription: d\nmetadata: {version: 1.0}\n---\n",
        "---\nname: refunds\ndescription: d\nmetadata: [a]\n---\n",
    ],
)
def test_a_text_that_is_no_skill_is_refused(text: str) -> None:
    with pytest.raises(SkillRefused):
        contents.of_text(text)


@pytest.mark.parametrize(
    ("written", "described"),
    [
        ("a: 1.0", {"a": 1}),
        ("a: 1.10", {"a": 1.1}),
        ("a: 010", {"a": 10}),
        ("a: 010", {"a": 8}),
        ("a: 0x1F\nb: 0o17", {"a": 31, "b": 15}),
        ("a: yes", {"a": "yes"}),
        ("a: yes", {"a": True}),
        ("a: 12:30:45\nb: 2026-01-02", {"a": 45045, "b": "2026-01-02"}),
        ("a: |\n  one\n  two", {"a": "one\ntwo\n"}),
        ("a: |\n  one\n  two", {"a": "one\ntwo"}),
        ("a: >\r\n  one\r\n  two\r", {"a": "one two"}),
    ],
)
def test_an_entry_agrees_with_its_file_however_its_server_reads_yaml(written: str, described: dict[str, Any]) -> None:
    raw = f"---\nname: refunds\ndescription: d\n{written}\n---\n".encode()
    entry = {"name": "refunds", "description": "d", **described}
    for each in (raw, codecs.BOM_UTF8 + raw):
        assert contents.reading_of(each, entry) == entry


@pytest.mark.parametrize("described", [{"a": "ja"}, {"a": 1}, {}, {"a": "yes", "b": 1}, {"a": "yes", "name": "other"}])
def test_an_entry_of_other_words_does_not_agree(described: dict[str, Any]) -> None:
    raw = b"---\nname: refunds\ndescription: d\na: yes\n---\n"
    assert contents.reading_of(raw, {"name": "refunds", "description": "d", **described}) is None


def test_a_zip_is_read_with_or_without_its_folder_and_without_hidden_files() -> None:
    files = {"SKILL.md": TEXT.encode(), "a b/ü.md": b"x", ".env": b"secret", "__MACOSX/._x": b"x"}
    flat = contents.of_zip(zipped(files))
    assert list(flat.files) == ["SKILL.md", "a b/ü.md"]
    assert set(flat.left_out) == {".env", "__MACOSX/._x"}
    in_folder = contents.of_zip(zipped({f"refunds/{name}": raw for name, raw in files.items()}))
    assert in_folder.files == flat.files
    assert contents.uri_of("acme/refunds", "a b/ü.md") == "skill://acme/refunds/a%20b/%C3%BC.md"


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "C:/x", "a\\..\\x", "a//b", "./x", "SKILL.md/x", "a\nb", "a" * 301]
)
def test_a_path_that_is_not_within_the_skill_is_refused(name: str) -> None:
    with pytest.raises(SkillRefused):
        contents.of_zip(zipped({"SKILL.md": TEXT.encode(), name: b"x"}))


def test_links_special_files_and_encrypted_zips_are_refused() -> None:
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        with pytest.raises(SkillRefused, match="link"):
            contents.of_zip(zipped({"SKILL.md": TEXT.encode(), "x_md": b"/etc/passwd"}, x_md=kind | 0o777))
    raw = bytearray(zipped({"SKILL.md": TEXT.encode()}))
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(SkillRefused, match="encrypted"):
        contents.of_zip(bytes(raw))
    with pytest.raises(SkillRefused):
        contents.of_zip(b"PK\x03\x04 but no zip")


def test_a_file_twice_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("SKILL.md", TEXT)
        archive.writestr("x", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x", "2")
    with pytest.raises(SkillRefused, match="twice"):
        contents.of_zip(made.getvalue())


def test_bombs_are_refused_by_what_they_declare_and_by_what_they_hold() -> None:
    bomb = zipped({"SKILL.md": TEXT.encode(), "zeros": bytes(contents.MOST_BYTES + 1)})
    assert len(bomb) < 100_000
    with pytest.raises(SkillRefused, match="bytes"):
        contents.of_zip(bomb)
    lying = bytearray(bomb)
    at = lying.rindex(b"PK\x01\x02")
    lying[at + 24 : at + 28] = (10).to_bytes(4, "little")
    with pytest.raises(SkillRefused):
        contents.of_zip(bytes(lying))
    with pytest.raises(SkillRefused, match="512"):
        contents.of_zip(zipped({"SKILL.md": TEXT.encode(), **{f"f{number}": b"" for number in range(512)}}))
    whole = contents.of_zip(zipped({"SKILL.md": TEXT.encode(), **{f"f{number}": b"" for number in range(511)}}))
    assert len(whole.files) == contents.MOST_FILES


def test_a_folder_is_read_and_a_link_in_it_refused(tmp_path: Path) -> None:
    (tmp_path / "references").mkdir()
    (tmp_path / "SKILL.md").write_text(TEXT)
    (tmp_path / "references" / "RULES.md").write_text("Rules")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    found = contents.of_folder(tmp_path)
    assert found.files == {"SKILL.md": TEXT.encode(), "references/RULES.md": b"Rules"}
    (tmp_path / "references" / "out").symlink_to("/etc")
    with pytest.raises(SkillRefused, match="link"):
        contents.of_folder(tmp_path)


def test_a_nested_skill_must_be_one_and_have_the_name_of_its_folder() -> None:
    nested = b"---\nname: partial\ndescription: Some of it.\n---\n"
    files = {"SKILL.md": TEXT.encode(), "partial/SKILL.md": nested}
    assert contents.of_files(files).nested == ["partial"]
    with pytest.raises(SkillRefused, match="names the skill partial"):
        contents.of_files({"SKILL.md": TEXT.encode(), "whole/SKILL.md": nested})
    with pytest.raises(SkillRefused, match="partial/SKILL"):
        contents.of_files({"SKILL.md": TEXT.encode(), "partial/SKILL.md": b"no"})


def test_digests_and_media_types_are_those_of_the_bytes() -> None:
    assert contents.digest_of(b"x") == f"sha256:{hashlib.sha256(b'x').hexdigest()}"
    named = {"a.md": "text/markdown", "a.py": "text/x-python", "a.png": "image/png", "a.json": "application/json"}
    assert {name: contents.media_type_of(name, b"") for name in named} == named
    assert contents.media_type_of("Makefile", b"all:") == "text/plain"
    assert contents.media_type_of("tool", b"\xff\x00") == "application/octet-stream"


def test_a_file_without_end_is_refused_after_its_bound() -> None:
    with open("/dev/zero", "rb") as file, pytest.raises(SkillRefused, match="larger than"):
        contents.of_file(file)
