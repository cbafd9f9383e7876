"""InputRounds of a stateless call that asks its client (MCP 2026-07-28, Input required).

The hub keeps nothing between them. Questions and answers travel in `requestState`: encrypted, bound to the caller and
to the request, and short-lived, so that any worker can continue and nobody can change it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from invocations.call.context import CallInput, Suspended
from invocations.call.questions import Unrecorded
from invocations.call_source import CallSource
from sessions_app.protocol import json
from sessions_app.protocol.errors import AskFailed, HubError, InvalidParams, MissingClientCapability
from sessions_app.protocol.revisions import Revision
from tools_catalog.call.base import Json
from tools_catalog.call.input_requests import InputRequest, InvalidInputResponse

MOST_ROUNDS = 20
"""A tool that asks differently each time it runs would otherwise ask for ever."""
LARGEST_STATE_BYTES = 1024 * 1024

_PURPOSE = b"mcphub request state"
_NONCE_BYTES = 12
_OWN = frozenset({"_meta", "inputResponses", "requestState"})
"""Parameters that are not part of the request's meaning."""


class InputRounds:
    """The input requester of one round."""

    def __init__(self, source: CallSource, revision: Revision, method: str, params: Mapping[str, Json]) -> None:
        self._source = source
        self._revision = revision
        self._method, self._params = method, params
        self._bound: bytes | None = None
        self._first = ""
        self.resume_token: str | None = ""
        """The name of the suspended call; empty where the call is made again."""
        self._number = 0
        self._asked: dict[str, str] = {}
        """Key -> digest of the question, of the round before."""
        self._given: Mapping[str, Any] = {}
        """The client's responses in this round, by key."""
        self._answers: dict[str, list[Any]] = {}
        """Key -> digest of the question, answer: the settled ones."""
        self._pending: dict[str, InputRequest] = {}
        self._error: HubError | None = None

    @classmethod
    def of(cls, source: CallSource, revision: Revision, method: str, params: dict[str, Json]) -> InputRounds:
        """Read where a request stands. Does not raise; `check` does."""
        rounds = cls(source, revision, method, params)
        try:
            given, state = params.get("inputResponses", {}), params.get("requestState")
            if not isinstance(given, dict):
                raise InvalidParams("inputResponses must be an object of answers by the keys of inputRequests.")
            rounds._given = given
            if state is not None:
                rounds._resume(state)
        except HubError as error:
            rounds._error = error
        return rounds

    @property
    def _binding(self) -> bytes:
        """Return the binding of the state: caller and request. Most calls never ask, so it is made when the first
        does.
        """
        if self._bound is None:
            salient = json.digest(json.canonical({n: value for n, value in self._params.items() if n not in _OWN}))
            self._bound = json.canonical([self._source.caller.principal, self._method, salient]).encode()
        return self._bound

    @property
    def continues(self) -> str:
        """The invocation of the first round; empty in the first."""
        return self._first

    def digests_without(self, stem: str) -> tuple[str, str] | None:
        """Return the digests of this round's state and of its answers; None in the first, and where a key was
        asked that
        begins with `stem`."""
        if not self._number or any(key.startswith(stem) for key in self._asked):
            return None
        state, answers = (self._params.get(name) for name in ("requestState", "inputResponses"))
        return json.digest(json.canonical(state)), json.digest(json.canonical(answers))

    def check(self) -> None:
        """Raise InvalidParams where the state is not one that the hub gave this caller for this request."""
        if self._error is not None:
            raise self._error

    async def ask(self, call: CallInput, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        capabilities = self._source.client_capabilities
        missing = [each for each in questions.values() if not each.is_possible(capabilities, self._revision)]
        if missing:
            required = {name: value for each in missing for name, value in each.required.items()}
            raise MissingClientCapability(required)
        found = {}
        settled = set(self._answers)
        for key, question in questions.items():
            try:
                given = self._settle(key, question)
            except InvalidInputResponse:
                self._pending[key] = question
                continue
            # The question is in the row of the round before, a settled answer in that of its own round.
            is_new = key not in settled
            record = call.question(question.method, question.params(self._revision)) if is_new else Unrecorded()
            found[key] = await call.taken(key, question, {"result": given}, record)
        if len(found) < len(questions):
            await call.suspend()
        return found

    def suspended(self, invocation_id: str) -> Suspended:
        if self._number >= MOST_ROUNDS:
            raise AskFailed(f"The tool asked {MOST_ROUNDS} times and came to no end. Tell its author.")
        requests = {
            key: {"method": question.method, "params": question.params(self._revision)}
            for key, question in self._pending.items()
        }
        state = self._state(invocation_id)
        recorded = {"resultType": "input_required", "inputRequests": requests}
        return Suspended({**recorded, "requestState": state}, recorded)

    def _settle(self, key: str, question: InputRequest) -> Any:
        """Return the client's answer to a question; raise InvalidInputResponse where there is none of use to this very
        question.
        """
        digest = self._digest(question)
        settled = self._answers.get(key)
        if settled is not None and settled[0] == digest:
            return settled[1]
        given = self._given.get(key)
        # Without a state the client answers what it foresees; with one, what it was asked.
        if not isinstance(given, dict) or (self._number and self._asked.get(key) != digest):
            raise InvalidInputResponse
        question.read(given)
        self._answers[key] = [digest, given]
        return given

    def _digest(self, question: InputRequest) -> str:
        return json.digest(json.canonical([question.method, question.params(self._revision)]))[:32]

    def _state(self, invocation_id: str) -> str:
        plain = json.canonical(
            {
                "until": int(time.time() + settings.MCPHUB_ANSWER_SECONDS),
                "first": self._first or invocation_id,
                "parked": self.resume_token,
                "number": self._number + 1,
                "asked": {key: self._digest(question) for key, question in self._pending.items()},
                "answers": self._answers,
            }
        ).encode()
        if len(plain) > LARGEST_STATE_BYTES:
            raise AskFailed(f"The answers so far are longer than {LARGEST_STATE_BYTES} bytes. Ask for less.")
        nonce = os.urandom(_NONCE_BYTES)
        return urlsafe_b64encode(nonce + AESGCM(_key()).encrypt(nonce, plain, self._binding)).decode()

    def _resume(self, state: Json) -> None:
        if not isinstance(state, str):
            raise InvalidParams("requestState must be the string that the hub gave.")
        try:
            raw = urlsafe_b64decode(state.encode("ascii"))
            if urlsafe_b64encode(raw).decode() != state:
                raise ValueError("stray characters")
            plain = AESGCM(_key()).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], self._binding)
        except (InvalidTag, ValueError) as error:
            raise InvalidParams(
                "requestState is not one that the hub gave you for this request. Send the request again without it."
            ) from error
        known = json.loads(plain)
        if known["until"] < time.time():
            raise InvalidParams("requestState has expired. Send the request again without it.")
        self._first, self._number = known["first"], known["number"]
        self.resume_token = known.get("parked", "")
        self._asked, self._answers = known["asked"], known["answers"]


def _key() -> bytes:
    return hmac.digest(settings.SECRET_KEY.encode(), _PURPOSE, hashlib.sha256)
