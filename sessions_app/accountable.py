"""The people behind a principal, and a check of two principals for one person behind both.

Every person that got the text of a credential answers for it: its maker, the people behind the key that made it,
and each person that rotated it. All code that checks permission to confirm, approve or decide compares with
`is_one_person`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history import source
from sessions_app.kit.people_tables import PEOPLE, person_key

UNKNOWN = "?"
"""Stands for an unknown person among names."""
_PERSON = f"person__{PEOPLE.name}"


class NobodyNamed(ValidationError):
    """A user name that no account has."""


class AccountablePerson(models.Model):
    """A person answers for a credential, or for the account of a service."""

    principal = models.CharField(_("principal"), max_length=80)
    """`key:<id>`, or `user:<id>` of a service's account, which no person is."""
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("person")
    )
    """None: an unknown person was given its text."""

    class Meta:
        verbose_name = _("accountable person")
        verbose_name_plural = _("accountable people")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["principal", "person"], name="accountable_person_once"),
            models.UniqueConstraint(fields=["principal"], condition=Q(person=None), name="accountable_stranger_once"),
        ]

    def __str__(self) -> str:
        return f"{self.principal}: {self.person or '?'}"


@dataclass(frozen=True, slots=True)
class Party:
    """One side of a decision: its principal on record, and its credential where that is another one."""

    principal: str
    credential: str = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.principal, self.credential} - {""})


@dataclass(frozen=True, slots=True)
class Behind:
    """The accountable people of a party."""

    people: frozenset[int]
    is_known: bool
    """Whether no other person may be behind it."""


def behind(party: Party) -> Behind:
    """Return the people behind a party. Asks the database."""
    found: dict[str, set[int | None]] = {}
    rows = AccountablePerson.objects.filter(principal__in=party.names)
    for principal, person in rows.values_list("principal", "person_id"):
        found.setdefault(principal, set()).add(person)
    people = {person for persons in found.values() for person in persons if person is not None}
    own = found.get(party.principal, set())
    person = person_key(party.principal)
    if not own and person is not None:
        return Behind(frozenset(people | {person}), is_known=True)
    return Behind(frozenset(people), is_known=bool(own) and None not in own)


def is_one_person(one: Party, other: Party) -> bool:
    """Return whether two parties are one, or a person is behind both. Asks the database."""
    return bool(one.names & other.names or behind(one).people & behind(other).people)


def party_of(user: Any) -> Party:
    """Return a person, or the principal of a key, as a party."""
    key = getattr(user, "key", None)
    if key is not None:
        return Party(key.principal, f"key:{key.pk}")
    return Party(f"user:{user.pk}") if getattr(user, "pk", None) is not None else Party("")


def note_text_given(principal: str, *, also: Iterable[int | None] = ()) -> None:
    """Note the people with the text of a credential: those behind the current edit, and `also`."""
    editor = behind(party_of(source.current().user))
    people: set[int | None] = {*editor.people, *also} - {None}
    if not people or (editor.people and not editor.is_known):
        people.add(None)
    _add(principal, people)


def name(principal: str, people: Iterable[int | None]) -> None:
    """Replace the accountable people of a credential."""
    with transaction.atomic():
        AccountablePerson.objects.filter(principal=principal).delete()
        _add(principal, people)


def names_of(principal: str) -> list[str]:
    """Return the user names of the accountable people of a credential, `?` for an unknown person."""
    return names_of_each([principal])[principal]


def names_of_each(principals: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of many credentials, by one query."""
    found: dict[str, list[str]] = {principal: [] for principal in principals}
    rows = AccountablePerson.objects.filter(principal__in=found)
    for principal, username in rows.values_list("principal", _PERSON):
        found[principal].append(username or UNKNOWN)
    return {principal: sorted(names) or [UNKNOWN] for principal, names in found.items()}


def origins_of(principal: str, *, owner: int | None, maker: int | None) -> list[tuple[str, str]]:
    """Return each accountable person of a credential by user name, with how they came to be: for people."""
    rows = AccountablePerson.objects.filter(principal=principal).order_by(_PERSON)
    told = []
    for person, username in rows.values_list("person_id", _PERSON):
        if person is None:
            how = _t("a command, or a key that nobody is known to answer for, created or rotated it")
        elif person == owner:
            how = _t("it is this person's key")
        elif person == maker:
            how = _t("created it")
        else:
            how = _t("was named, rotated it, or answers for the key that created or rotated it")
        told.append((username or UNKNOWN, how))
    return told or [(UNKNOWN, _t("nobody has been named"))]


def found(names: Iterable[str]) -> list[int | None]:
    """Return the people of these user names, None for an unknown person. Raises NobodyNamed."""
    people: dict[str, int | None] = dict(
        get_user_model().objects.filter(**{f"{PEOPLE.name}__in": names}).values_list(PEOPLE.name, "pk")
    )
    people[UNKNOWN] = None
    if missing := sorted(set(names) - people.keys()):
        raise NobodyNamed(_t("No person has the user name %(name)s.") % {"name": ", ".join(missing)})
    return [people[each] for each in names]


def _add(principal: str, people: Iterable[int | None]) -> None:
    with transaction.atomic():
        for person in people:
            AccountablePerson.objects.get_or_create(principal=principal, person_id=person)
