"""REST's answer to a test: its steps, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from rest_framework import serializers
from rest_framework.response import Response


class TriedStep(Protocol):
    """A step of a probe."""

    @property
    def is_good(self) -> bool:
        """Whether it went well."""


class TriedStepSerializer(serializers.Serializer[Any]):
    """One step of a test."""

    kind = serializers.CharField(help_text="What was tried.")
    is_good = serializers.BooleanField(help_text="Whether it went well.")
    outcome = serializers.CharField(help_text="What came out, or what went wrong.")
    milliseconds = serializers.IntegerField(help_text="How long it took.")


class TriedSerializer(serializers.Serializer[Any]):
    """A test, step by step."""

    is_good = serializers.BooleanField(help_text="Whether each step went well.")
    steps = TriedStepSerializer(many=True)


def tried(steps: Iterable[TriedStep]) -> Response:
    """Answer with the steps of a probe."""
    made = list(steps)
    return Response(TriedSerializer({"is_good": all(step.is_good for step in made), "steps": made}).data)
