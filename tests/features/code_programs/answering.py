"""Runs programs against answers that a test writes, in the real child."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from mcphub.features.programs import running
from mcphub.features.programs.outcome import ProgramAnswer, ProgramFailure, ProgramQuestion
from mcphub.features.programs.running import ProgramLimits, ProgramOutput
from sessions_app.protocol.json import Json
from tools_catalog.upstream.confinement import machine

confined = pytest.mark.skipif(
    not (machine.this_machine().can_confine and machine.this_machine().filters_calls),
    reason="the kernel cannot confine programs",
)
LIMITS = ProgramLimits(seconds=60, processor_seconds=1, output_characters=5000, calls=5, questions=10)


@dataclass
class ProgramAnswers:
    """Echoes arguments; `fail` fails with the code in its arguments, `wait` never answers, `meet` only with
    another one.
    """

    asked: list[ProgramQuestion] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    has_met: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, question: ProgramQuestion) -> ProgramAnswer:
        self.asked.append(question)
        self.is_asked.set()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if question.name == "meet":
                if self.at_once >= 2:
                    self.has_met.set()
                await self.has_met.wait()
            if question.name == "wait":
                await asyncio.Event().wait()
        finally:
            self.at_once -= 1
        if question.name == "fail":
            return ProgramAnswer.failure(str(question.given["code"]), "It failed.", {"why": "asked to"})
        if question.name == "large":
            return ProgramAnswer("x" * int(question.given["size"]))
        return ProgramAnswer(question.given)


@dataclass
class ProgramRun:
    """How a program ended: one of both."""

    output: ProgramOutput
    failure: ProgramFailure | None
    answers: ProgramAnswers

    @property
    def code(self) -> str:
        return "" if self.failure is None else str(self.failure.kind)


def ran(program: str, given: Json = None, **limits: float) -> ProgramRun:
    answers = ProgramAnswers()
    chosen = replace(LIMITS, **limits)  # type: ignore[arg-type]  # of whole numbers and others by name
    try:
        return ProgramRun(asyncio.run(running.run(program, given, answers, chosen)), None, answers)
    except ProgramFailure as failure:
        return ProgramRun(failure.output, failure, answers)
