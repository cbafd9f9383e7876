"""What a hub installs is pinned, with digests, and told in a bill of materials."""

from __future__ import annotations

import json

import pytest
from packaging.markers import Marker

from deploy.release import hashes, sbom


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


LISTS = sorted(hashes.lists())


def test_there_is_a_list_for_the_hub_for_each_extra_and_for_what_installs_them() -> None:
    assert sorted(path.name for path in hashes.FOLDER.iterdir()) == sorted([*LISTS, hashes.INSTALLER])


@pytest.mark.parametrize("name", [*LISTS, hashes.INSTALLER])
def test_a_list_pins_what_constraints_pin_and_has_digests(name: str) -> None:
    listed = hashes.read((hashes.FOLDER / name).read_text())
    assert set(listed) - set(hashes.constraints()) == set(), "run `make hashes`"
    assert [release for release, digests in listed.items() if not digests] == []


@pytest.mark.parametrize("name", LISTS)
def test_a_list_holds_all_that_is_needed_on_this_python_and_nothing_else(name: str) -> None:
    pins = hashes.constraints()
    listed = hashes.read((hashes.FOLDER / name).read_text())
    here = [
        package
        for package, version in listed
        if not pins[package, version] or Marker(pins[package, version]).evaluate()
    ]
    assert sorted(here) == sorted(set(sbom.graph(hashes.lists()[name])) - {"mcphub"}), "run `make hashes`"


@pytest.mark.parametrize("name", [*LISTS, hashes.INSTALLER])
def test_a_list_names_no_address(name: str) -> None:
    text = (hashes.FOLDER / name).read_text()
    assert "://" not in text
    assert "index-url" not in text


def test_the_bill_of_materials_fits_the_schema_and_is_reproducible() -> None:
    text = sbom.bill("mcphub.txt")
    assert sbom.wrong(text) is None
    assert text == sbom.bill("mcphub.txt")
    assert "2023-11-14" in json.loads(text)["metadata"]["timestamp"]


def test_the_bill_names_every_listed_release_with_licence_and_digests() -> None:
    told = {part["name"]: part for part in json.loads(sbom.bill("mcphub.txt"))["components"]}
    assert [name for name, part in told.items() if not part["licenses"]] == []
    listed = hashes.read((hashes.FOLDER / "mcphub.txt").read_text())
    cryptography = next(release for release in listed if release[0] == "cryptography")
    assert {each["content"] for each in told["cryptography"]["hashes"]} == listed[cryptography]


def test_the_schema_refuses_a_spoilt_bill() -> None:
    spoilt = json.loads(sbom.bill("mcphub.txt")) | {"components": [{"name": "no type"}]}
    assert sbom.wrong(json.dumps(spoilt))
