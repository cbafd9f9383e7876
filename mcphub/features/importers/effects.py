"""An operation's effects, by its method, words, path and parameters. What is unsure writes and may destroy. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_GONE = _set(
    "delete del remove destroy drop purge erase wipe truncate clear flush prune reset reload restart reboot "
    "shutdown terminate kill uninstall revoke cancel rollback revert overwrite"
)
"""These destroy in any place of a name or a path."""
_DEEDS = _GONE | _set(
    "stop start disable enable deactivate activate execute exec run eval send resend email mail sms notify "
    "publish broadcast pay charge refund withdraw transfer buy purchase checkout create add insert set put update "
    "patch modify change edit save write replace merge move rename migrate restore import install upgrade deploy "
    "apply approve reject accept decline confirm trigger toggle lock unlock ban block unblock archive unarchive "
    "subscribe unsubscribe retry replay rerun rotate regenerate rebuild sync submit close reopen assign unassign "
    "grant invoke logout unlink unpublish"
)
"""These change something where they lead a name, a sentence or end a path."""
_RISKY = _GONE | _set(
    "settings setting config configuration preferences sql bulk batch mass send resend email mail sms notify "
    "publish broadcast pay payment payments payout charge refund withdraw transfer buy purchase checkout execute "
    "exec eval script command migrate restore import deploy install grant permission permissions role roles "
    "password credentials"
)
"""Of an operation that writes: these make it destructive, whatever verb leads."""
_ADDS = _set(
    "create add insert register upload append open new post comment reply search find query list get read fetch "
    "count check validate verify preview calculate compute estimate translate convert parse render compare"
)
"""What a write does at most where one of these leads: it adds, or only reads."""
_POWERS = _set("sql script command cmd expression")
"""Names of parameters by which a caller writes a program."""
_READING = ("GET", "HEAD", "OPTIONS", "QUERY")
_ADDING = ("POST", "MUTATION")


def effects_of(method: str, *, called: str, told: str, path: str, parameters: Iterable[str]) -> dict[str, bool]:
    """Return the columns `read_only` and `destructive` of an operation's tool.

    `method` is of HTTP, or `query` or `mutation`; `called` the operation's name, `told` its summary or description.
    """
    name, places = _words(called), [_words(part) for part in path.split("/") if part and "{" not in part]
    leads = {*name[:1], *(_verb(word) for word in _words(told)[:1])}
    inside = {*name, *(word for place in places for word in place)}
    powers = {word for parameter in parameters for word in _words(parameter)} & _POWERS
    if method.upper() in _READING:
        last = {*places[-1][:1]} if places else set()
        acts = leads & _DEEDS or inside & _GONE or powers or (last & _DEEDS and not leads & _ADDS)
        return {"read_only": not acts, "destructive": bool(acts)}
    is_additive = method.upper() in _ADDING and bool(leads & _ADDS)
    risks = inside & _RISKY or {_verb(word) for word in _words(told)[:12]} & _RISKY or powers
    return {"read_only": False, "destructive": not is_additive or bool(risks)}


def _words(text: str) -> list[str]:
    """Return the words of a name in any spelling: `purgeOldItems`, `purge_old-items`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text[:2_000])]


def _verb(word: str) -> str:
    """Return a verb without its ending: `deletes`, `purged` and `resetting` are `delete`, `purge` and `reset`."""
    for ending in ("s", "es", "d", "ed", "ing"):
        stem = word.removesuffix(ending)
        for base in (stem, f"{stem}e", stem[:-1] if stem[-1:] == stem[-2:-1] else stem):
            if stem != word and base in _KNOWN:
                return base
    return word


_KNOWN = _DEEDS | _RISKY | _ADDS
