"""Write a software bill of materials (CycloneDX 1.6, JSON): the hub and what deploy/hashes installs on this Python.

Digests come from the list, licences and dependencies from what is installed here. The same release gives the same
bytes: the serial number is made of the content, and the time is SOURCE_DATE_EPOCH or that of the last commit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.markers import Marker
from packaging.requirements import Requirement

from deploy.release import hashes

VERSION = SchemaVersion.V1_6


def bill(name: str) -> str:
    """Return the bill for the list `name` of deploy/hashes. LookupError: something of the list is not installed
    here.
    """
    pins = hashes.constraints()
    listed = hashes.read((hashes.FOLDER / name).read_text())
    here = {pin: found for pin, found in listed.items() if not pins[pin] or Marker(pins[pin]).evaluate()}
    hub = distribution("mcphub")
    root = _component("mcphub", hub.version, set(), ComponentType.APPLICATION)
    parts = {package: _component(package, version, found) for (package, version), found in here.items()}
    bom = Bom(components=parts.values())
    bom.metadata.timestamp = made_at()
    bom.metadata.component = root
    bom.metadata.properties.add(
        Property(name="mcphub:python", value=f"{sys.version_info.major}.{sys.version_info.minor}")
    )
    bom.metadata.properties.add(Property(name="mcphub:list", value=name))
    for package, needed in graph(hashes.lists()[name]).items():
        bom.register_dependency(parts.get(package, root), [parts[each] for each in sorted(needed)])
    content = "\n".join(sorted(f"{component.purl}" for component in [root, *parts.values()]))
    bom.serial_number = uuid5(NAMESPACE_URL, f"mcphub bill of materials\n{name}\n{content}")
    return make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string(indent=2) + "\n"


def graph(extras: tuple[str, ...]) -> dict[str, set[str]]:
    """Return what each package needs on this Python, from the hub downwards, with the extras that are asked for."""
    needs: dict[str, set[str]] = {}
    todo = [("mcphub", extra) for extra in ("", *extras)]
    done = set()
    while todo:
        package, extra = asked = todo.pop()
        if asked in done:
            continue
        done.add(asked)
        requirements = [Requirement(each) for each in distribution(package).requires or []]
        held = [each for each in requirements if not each.marker or each.marker.evaluate({"extra": extra})]
        needs.setdefault(package, set()).update(hashes.canonical(each.name) for each in held)
        todo += [(hashes.canonical(each.name), wanted) for each in held for wanted in ("", *each.extras)]
    return needs


def wrong(text: str) -> str | None:
    """Return what the schema of CycloneDX says against a bill, None if nothing."""
    from cyclonedx.validation.json import JsonStrictValidator  # a second of a core, for its grammars

    error = JsonStrictValidator(VERSION).validate_str(text)
    return None if error is None else str(error)


def _component(package: str, version: str, digests: set[str], kind: ComponentType = ComponentType.LIBRARY) -> Component:
    """Return one release. `digests` are those of each of its files, of which pip takes the one that fits the
    machine.
    """
    found = _installed(package, version)
    purl = PackageURL("pypi", name=package, version=version)
    return Component(
        name=package,
        version=version,
        type=kind,
        bom_ref=str(purl),
        purl=purl,
        description=found.metadata.get("Summary"),
        licenses=_licences(found),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in digests],
    )


def _installed(package: str, version: str) -> Distribution:
    try:
        found = distribution(package)
    except PackageNotFoundError:
        raise LookupError(f"{package} {version} is not installed here; run `make install-dev`.") from None
    if found.version != version:
        raise LookupError(f"{package} {found.version} is installed, the list has {version}; run `make install-dev`.")
    return found


def _licences(found: Distribution) -> list[License]:
    """Return the licence as the package words it: in its own field, or where a text stands there, in its
    classifiers.
    """
    words = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
    make = LicenseFactory().make_from_string
    if words and len(words) < 100 and "\n" not in words:
        return [make(words)]
    classified = [each for each in found.metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    return [make(each.rpartition(" :: ")[2]) for each in classified]


def made_at() -> datetime:
    seconds = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=hashes.HOME, check=True, capture_output=True, text=True
        ).stdout
    )
    return datetime.fromtimestamp(int(seconds), UTC)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", default="mcphub.txt", help="a list of deploy/hashes")
    parser.add_argument("-o", "--output", type=Path, help="file; else standard output")
    options = parser.parse_args()
    try:
        text = bill(options.list)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    if fault := wrong(text):
        print(f"CycloneDX's schema refuses the bill: {fault}", file=sys.stderr)
        return 1
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
