"""A test of a trusted issuer: its metadata, its keys, and the verdict on one token.

Nothing of the token is kept, and nobody is linked by it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync

from mcphub.features.signin.issuers import documents, keys, persons, trust
from mcphub.features.signin.issuers.documents import IssuerSilent
from mcphub.features.signin.issuers.trust import Check, TokenRefused, Trust
from sessions_app.protocol.json import Json

_MOST_SHOWN_KEYS = 20


@dataclass(slots=True)
class Trial:
    """The findings, in order; `claims` are those of the token, if one was given and could be read."""

    checks: list[Check] = field(default_factory=list)
    claims: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_accepted(self) -> bool:
        return all(check.is_good for check in self.checks)


def run(rule: Trust, token: str) -> Trial:
    """Look at an issuer as calls would, and at a token where one is given."""
    trial = Trial()
    subject = async_to_sync(_look)(rule, token, trial)
    if subject:
        trial.checks.append(_person(rule, subject, trial.claims))
    return trial


async def _look(rule: Trust, token: str, trial: Trial) -> str:
    """Ask the issuer and judge the token; give its subject, if it has a usable one."""
    published = await _document_and_keys(rule, trial)
    if not token:
        return ""
    claims = await _answer(rule, token, trial) if rule.is_asked else _signed(rule, token, published, trial)
    if claims is None:
        return ""
    judged = trust.judge_claims(rule, claims, time.time())
    trial.checks += judged.checks
    trial.claims = claims
    return judged.subject


async def _document_and_keys(rule: Trust, trial: Trial) -> list[keys.SigningKey]:
    try:
        found = await documents.discover(rule.issuer)
        trial.checks.append(Check("document", True, f"Its document is at {found.address}."))
    except IssuerSilent as error:
        is_needed = not (rule.question_address if rule.is_asked else rule.keys_address)
        trial.checks.append(Check("document", not is_needed, f"No document was found. {error}"))
    if rule.is_asked:
        return []
    try:
        published = await documents.keys(rule)
    except IssuerSilent as error:
        trial.checks.append(Check("keys", False, f"Its keys cannot be read. {error}"))
        return []
    usable = keys.usable(published)
    fitting = [key for key in usable if any(key.verifies(each) for each in rule.algorithms)]
    shown = ", ".join(f"{key.id[:40]!a} ({key.kind})" for key in fitting[:_MOST_SHOWN_KEYS])
    words = f"It publishes {len(published)} keys, {len(fitting)} of which fit the algorithms of this row. {shown}"
    trial.checks.append(Check("keys", bool(fitting), words.strip()))
    return usable


def _signed(rule: Trust, text: str, published: list[keys.SigningKey], trial: Trial) -> Mapping[str, Json] | None:
    try:
        token = trust.opened(text)
    except TokenRefused as refusal:
        trial.checks.append(Check("form", False, str(refusal)))
        return None
    trial.checks += trust.judge_header(rule, token)
    key = keys.chosen(published, token.key_id, token.algorithm)
    if key is None or token.algorithm not in rule.algorithms:
        trial.checks.append(Check("signature", False, "None of the issuer's keys can have signed it."))
        return token.claims
    try:
        keys.verify(text, key, token.algorithm)
        trial.checks.append(Check("signature", True, f"Its signature is right, by the key {key.id[:40]!a}."))
    except TokenRefused as refusal:
        trial.checks.append(Check("signature", False, str(refusal)))
    return token.claims


async def _answer(rule: Trust, text: str, trial: Trial) -> Mapping[str, Json] | None:
    if len(text) > trust.MOST_CHARACTERS:
        trial.checks.append(Check("form", False, f"It has more than {trust.MOST_CHARACTERS} characters."))
        return None
    try:
        answer = await documents.question(rule, text)
    except IssuerSilent as error:
        trial.checks.append(Check("answer", False, f"The issuer cannot be asked. {error}"))
        return None
    is_active = answer.get("active") is True
    words = (
        "The issuer says that the token is good." if is_active else "The issuer does not know the token, or it is over."
    )
    trial.checks.append(Check("answer", is_active, words))
    return {"exp": time.time() + 60, **answer} if is_active else None


def _person(rule: Trust, subject: str, claims: Mapping[str, Json]) -> Check:
    user = persons.linked(rule, subject)
    if user is not None:
        words = f"The subject is linked to {user.get_username()}, whose account is {_state(user.is_active)}."
        return Check("person", user.is_active, words)
    try:
        user, name = persons.candidate(rule, subject, claims)
    except TokenRefused as refusal:
        return Check("person", False, str(refusal))
    if user is None:
        return Check("person", True, f"The first token makes an account {name[:80]!a}.")
    words = f"The first token links the subject to {user.get_username()}, whose account is {_state(user.is_active)}."
    return Check("person", user.is_active, words)


def _state(is_active: bool) -> str:
    return "active" if is_active else "disabled"
