"""Skills made to mislead: names that look alike, paths that differ to people alone, archives that lie."""

from __future__ import annotations

import io
import socket
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.skills import contents
from mcphub.features.skills.contents import SkillRefused

TEXT = b"---\nname: refunds\ndescription: d\n---\n"


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return made.getvalue()


@pytest.mark.parametrize(
    "name",
    ["rеfunds", "ｒefunds", "refunds\u200b", "REFUNDS", "refunds/", "..", "con fig", "re\u202efunds", "x" * 65, "-a"],
)
def test_a_name_that_looks_like_another_is_refused(name: str) -> None:
    with pytest.raises(SkillRefused):
        contents.of_text(f"---\nname: {name!s}\ndescription: d\n---\n")


@pytest.mark.parametrize(
    "path", ["..\\x", "a/..", "a/./b", "~/x\x00", "\x7f", "a\x1b[31m", "//h/x", "\\\\h\\x", "a/\ud800", " ../x/.."]
)
def test_a_path_of_an_archive_that_leaves_or_hides_is_refused(path: str) -> None:
    with pytest.raises(SkillRefused):
        contents.of_files({"SKILL.md": TEXT, path: b"x"})


def test_paths_that_differ_to_machines_alone_are_refused() -> None:
    for one, other in (("Rules.md", "RULES.md"), ("\u00fc.md", "u\u0308.md"), ("skill.md", "x"), ("ﬁle.md", "file.md")):
        with pytest.raises(SkillRefused):
            contents.of_files({"SKILL.md": TEXT, one: b"1", other: b"2"})


def test_a_path_with_characters_that_nobody_sees_is_refused() -> None:
    for hidden in ("\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041"):
        with pytest.raises(SkillRefused):
            contents.of_files({"SKILL.md": TEXT, f"RULES{hidden}.md": b"x"})


@pytest.mark.parametrize("written", ["&a [*a, *a]", "!!python/object/apply:os.system [id]", "{<<: *x}", "'\\u0000'"])
def test_yaml_that_does_more_than_describe_is_refused(written: str) -> None:
    with pytest.raises(SkillRefused):
        contents.of_text(f"---\nname: refunds\ndescription: d\nmetadata: {written}\n---\n")


def test_aliases_do_not_multiply() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(SkillRefused):
        contents.of_text("---\nname: refunds\ndescription: d\n" + "\n".join(lines) + "\n---\n")


def test_an_archive_whose_directory_names_another_file_than_its_body_is_refused() -> None:
    raw = bytearray(zipped({"SKILL.md": TEXT, "safe.txt": b"x"}))
    at = raw.index(b"safe.txt")
    raw[at : at + 8] = b"../x.txt"
    with pytest.raises(SkillRefused):
        contents.of_zip(bytes(raw))


def test_entries_that_overlap_are_read_no_further_than_their_bound() -> None:
    raw = bytearray(zipped({"SKILL.md": TEXT, "a": bytes(1024 * 1024), "b": b""}))
    directory = raw.index(b"PK\x01\x02")
    names = [raw.index(b"PK\x01\x02", directory + 1)]
    names.append(raw.index(b"PK\x01\x02", names[0] + 1))
    where = raw[names[0] + 42 : names[0] + 46]
    raw[names[1] + 42 : names[1] + 46] = where  # both entries have one body
    raw[names[1] + 20 : names[1] + 28] = raw[names[0] + 20 : names[0] + 28]
    with pytest.raises(SkillRefused):
        contents.of_zip(bytes(raw))


def test_a_zip_within_a_skill_stays_a_file() -> None:
    inner = zipped({"../../x": b"x"})
    assert contents.of_files({"SKILL.md": TEXT, "inner.zip": inner}).files["inner.zip"] == inner


def test_an_end_that_claims_many_entries_brings_none() -> None:
    raw = bytearray(zipped({"SKILL.md": TEXT}))
    end = raw.rindex(b"PK\x05\x06")
    struct.pack_into("<HH", raw, end + 8, 0xFFFF, 0xFFFF)
    assert list(contents.of_zip(bytes(raw)).files) == ["SKILL.md"]


def test_a_socket_in_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_bytes(TEXT)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        with pytest.raises(SkillRefused):
            contents.of_folder(tmp_path)


def test_a_manifest_of_long_words_is_bounded() -> None:
    more: dict[str, Any] = {f"{number:03}" + "x" * 290: b"" for number in range(511)}
    assert len(contents.of_files({"SKILL.md": TEXT, **more}).files) == 512
    with pytest.raises(SkillRefused):
        contents.of_text("---\nname: refunds\ndescription: " + "d" * 1025 + "\n---\n")
