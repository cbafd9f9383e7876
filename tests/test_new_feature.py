"""`make feature` writes files that compile and name each other rightly."""

from __future__ import annotations

from pathlib import Path

from tests import new_feature


def test_the_skeleton_compiles_and_names_code_that_it_wrote(tmp_path: Path) -> None:
    page = tmp_path / new_feature.PAGE
    page.parent.mkdir(parents=True)
    page.write_text("| Feature |\n")
    written = new_feature.write("call_notes", tmp_path)
    for file in written:
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")
    assert page.read_text() == "| Feature |\n| `call_notes` | Call notes | |\n"
    apps = (tmp_path / "mcphub/features/call_notes/apps.py").read_text()
    for module, attribute in (("stage", "CallNotesStage"), ("rest", "CallNotesViewSet")):
        assert f"mcphub.features.call_notes.{module}:{attribute}" in apps
        assert f"class {attribute}" in (tmp_path / f"mcphub/features/call_notes/{module}.py").read_text()


def test_existing_files_that_are_edited_are_one(tmp_path: Path) -> None:
    (tmp_path / new_feature.PAGE).parent.mkdir(parents=True)
    (tmp_path / new_feature.PAGE).write_text("")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    edited = [path for path in new_feature.write("call_notes", tmp_path) if path in before]
    assert edited == [tmp_path / new_feature.PAGE]
