"""CONTRIBUTING promises that a class name means one thing in the whole product."""

from __future__ import annotations

from benchmarks import house


def test_no_class_name_stands_for_two_things() -> None:
    assert house.repeated_names(house.sources()) == {}
