"""Which second factors a person has, whether one is asked for, and whether a code is right, in all processes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction

from mcphub.features.login.factors import totp
from mcphub.features.login.models import SecondFactor
from sessions_app.protocol import json
from sessions_app.workspaces import roles

Kind = SecondFactor.Kind
CODES = 10
MOST_PASSKEYS = 20
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_NEEDED = {"codename": "needs_secondfactor", "content_type__app_label": "login"}


def kinds_of(user: User) -> set[str]:
    """Return the kinds by which a login goes on: codes on paper alone are none."""
    kinds = set(user.second_factors.values_list("kind", flat=True))
    return kinds if kinds - {Kind.CODES} else set()


def is_required(user: User) -> bool:
    """Return whether the person needs one: by the setting for all, for the console, or by a group.

    A superuser has every permission, so only a group, or the person's own row, counts.
    """
    wanted = settings.MCPHUB_SECOND_FACTOR
    if wanted == "everybody" or (wanted == "console" and roles.opens_console(user)):
        return True
    own = user.user_permissions.filter(**_NEEDED).exists()
    return own or user.groups.filter(**{f"permissions__{name}": value for name, value in _NEEDED.items()}).exists()


def takes_code(user: User, code: str) -> str:
    """Return the kind of factor of this code, and use the code up; empty if it is wrong."""
    with transaction.atomic():
        rows = {row.kind: row for row in _locked(user)}
        if (row := rows.get(Kind.APP)) is not None:
            step = totp.step_of(row.content(), code, time.time(), row.last_step)
            if step is not None:
                row.note_use(last_step=step)
                return str(Kind.APP)
        if (row := rows.get(Kind.CODES)) is not None and _use_up(row, code):
            return str(Kind.CODES)
    return ""


def add_app(user: User, secret: str, code: str) -> bool:
    """Accept an app whose code proves its secret; it replaces another. Return whether the code was right."""
    step = totp.step_of(secret, code, time.time(), 0)
    if step is None:
        return False
    with transaction.atomic():
        _locked(user).filter(kind=Kind.APP).delete()
        row = SecondFactor(user=user, kind=Kind.APP, last_step=step)
        row.set_content(secret)
        row.save()
    return True


def make_codes(user: User) -> list[str]:
    """Return new recovery codes, which are shown once; earlier ones end."""
    codes = ["".join(secrets.choice(_LETTERS) for _ in range(10)) for _ in range(CODES)]
    with transaction.atomic():
        _locked(user).filter(kind=Kind.CODES).delete()
        row = SecondFactor(user=user, kind=Kind.CODES)
        row.set_content(json.dumps([_digest(code) for code in codes]).decode())
        row.save()
    return [f"{code[:5]}-{code[5:]}" for code in codes]


def has_codes(user: User) -> bool:
    return bool(_of(user).filter(kind=Kind.CODES).exists())


def codes_left(user: User) -> int:
    row = _of(user).filter(kind=Kind.CODES).first()
    kept: Any = json.loads(row.content().encode()) if row is not None else []
    return len(kept)


def take_away(user: User, pk: int) -> bool:
    """Remove one of the person's factors; where no other is left, the codes on paper too. False: it must stay."""
    with transaction.atomic():
        rows = list(_locked(user))
        chosen = next((row for row in rows if row.pk == pk), None)
        if chosen is None:
            return True
        rest = [row for row in rows if row.pk != pk and row.kind != Kind.CODES]
        if not rest and chosen.kind != Kind.CODES and is_required(user):
            return False
        chosen.delete()
        if not rest:
            for row in rows:
                if row.kind == Kind.CODES and row.pk != pk:
                    row.delete()
    return True


def take_away_all(rows: Iterable[SecondFactor], reason: str) -> int:
    """Remove the factors chosen by an operator, and the paper codes of people without other factors; return the
    number.
    """
    count = 0
    people = {}
    for row in rows:
        people[row.user_id] = row.user
        row.change_reason = reason
        row.delete()
        count += 1
    for user in people.values():
        if not kinds_of(user):
            for row in _of(user):
                row.change_reason = reason
                row.delete()
    return count


def _use_up(row: SecondFactor, code: str) -> bool:
    kept: Any = json.loads(row.content().encode())
    wanted = _digest("".join(letter for letter in code.lower() if letter.isalnum()))
    left = [each for each in kept if not hmac.compare_digest(each, wanted)]
    if len(left) == len(kept):
        return False
    row.set_content(json.dumps(left).decode())
    row.note_use(ciphertext=row.ciphertext)
    return True


def _digest(code: str) -> str:
    return hashlib.sha256(b"mcphub recovery " + code.encode("utf-8", "surrogatepass")).hexdigest()


def _of(user: User) -> Any:
    return SecondFactor.objects.filter(user=user)


def _locked(user: User) -> Any:
    """The person's row is the lock: two requests do not use one code, nor each the last but one factor."""
    get_user_model()._default_manager.select_for_update().get(pk=user.pk)
    return _of(user).order_by("pk")
