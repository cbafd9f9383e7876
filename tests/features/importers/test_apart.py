"""Descriptions are read in a process of their own, within memory and size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.features.importers import descriptions, worker
from mcphub.features.importers.documents import DocumentRefused

pytestmark = pytest.mark.program

SMALL: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://h.example"}],
    "paths": {"/a/{b}": {"get": {"tags": ["x"]}, "trace": {}}},
}


def look(document: Any) -> Any:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return worker.look(raw, descriptions.OPENAPI, slug="s", prefix="s.")


def test_what_is_found_comes_back_whole() -> None:
    found = look(SMALL)
    here = descriptions.look(json.dumps(SMALL).encode(), descriptions.OPENAPI, slug="s", prefix="s.")
    assert found == here
    assert found.candidates[0].tags == ("x",)
    assert found.refused == [("TRACE /a/{b}", "Tools do not send TRACE.")]


def test_a_refusal_comes_back_as_one() -> None:
    with pytest.raises(DocumentRefused, match="not valid JSON"):
        look(b"{")


def test_a_document_that_needs_too_much_memory_is_refused_and_the_hub_goes_on(settings: Any) -> None:
    settings.MCPHUB_IMPORT_MEMORY_BYTES = 256 * 1024 * 1024
    many = b'{"openapi":"3.1.0","info":{"description":"' + b"x" * 80 * 1024 * 1024 + b'"}}'
    with pytest.raises(DocumentRefused, match="the limit import_memory_bytes"):
        look(many)
    assert look(SMALL).candidates


def test_the_bound_of_size_is_a_setting(settings: Any) -> None:
    settings.MCPHUB_MAX_IMPORT_BYTES = 1024
    large = {**SMALL, "info": {"title": "x", "description": "y" * 2000}}
    assert look(large).candidates  # what is dropped counts for nothing
    with pytest.raises(DocumentRefused, match="more than the 4096 bytes that are read"):
        look({**SMALL, "info": {"description": "y" * 5000}})
    wide = {**SMALL, "paths": {f"/{n}": {"get": {"tags": ["some tag"]}} for n in range(30)}}
    with pytest.raises(DocumentRefused, match="the limit max_import_bytes"):
        look(wide)
