"""A directory's operations on groups: it fills those of its key, and creates others, which reserve tools alone."""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone
from scim2_models import (
    InvalidValueException,
    MutabilityException,
    NotFoundException,
    PayloadTooLargeException,
    UniquenessException,
)

from mcphub.console_access import keep_console, opens_console
from mcphub.features.scim import people
from mcphub.features.scim.models import ProvisionedGroup
from mcphub.features.scim.resources import DirectoryGroup, external_id
from sessions_app.models import ApiKey

_A_ROLE = (
    "The group has permissions in the console, so it is a role. Let a superuser put it among the groups of the "
    "directory's key."
)
MOST_CHANGED = 1000
"""Members that one request adds or takes away. Each is an event of the history."""
_TAKEN = (
    "A group with this displayName exists already. Let an operator put it among the groups of the directory's key, or "
    "name the group otherwise."
)
_NOT_ITS_OWN = "The hub had this group before the directory, which may fill it and not rename or remove it."


def visible(key: ApiKey, *, with_members: bool = True) -> QuerySet[Group]:
    of_key = Q(pk__in=key.held_groups().values("pk"))
    rows = Group.objects.filter(of_key | Q(provisioned__is_made_here=True))
    rows = rows.filter(provisioned__removed_at=None).select_related("provisioned")
    if with_members:
        members = people.visible().select_related(None).order_by("pk")
        rows = rows.prefetch_related(Prefetch("user_set", members, to_attr="shown_members"))
    return rows


def find(key: ApiKey, number: str, *, for_change: bool = False, with_members: bool = True) -> Group:
    """Raises NotFoundException."""
    is_id = number.isascii() and number.isdecimal() and len(number) < 10
    rows = visible(key, with_members=with_members)
    rows = rows.select_for_update(of=("self",)) if for_change else rows
    row = rows.filter(pk=int(number)).first() if is_id else None
    if row is None:
        raise NotFoundException(detail="There is no such group, or the directory's key does not have it.")
    return row


def make(key: ApiKey, said: DirectoryGroup) -> Group:
    """Make a group, or one again that the directory removed. Raises UniquenessException, InvalidValueException."""
    name = _name(said)
    with transaction.atomic():
        row = Group.objects.filter(name=name, provisioned__removed_at__isnull=False).select_for_update().first()
        if row is None:
            if Group.objects.filter(name__iexact=name).exists():
                raise UniquenessException(detail=_TAKEN)
            row = _made(name)
        kept, _new = ProvisionedGroup.objects.get_or_create(group=row, defaults={"is_made_here": True})
        kept.removed_at, kept.external_id = None, external_id(said)
        kept.save()
        _fill(row, _wanted(said), key=key)
    return find(key, str(row.pk))


def change(key: ApiKey, row: Group, said: DirectoryGroup) -> Group:
    """Update a locked group from the directory's data."""
    kept: ProvisionedGroup | None = getattr(row, "provisioned", None)
    name = _name(said)
    with transaction.atomic():
        if name != row.name:
            if kept is None or not kept.is_made_here:
                raise MutabilityException(detail=_NOT_ITS_OWN)
            if Group.objects.filter(name__iexact=name).exclude(pk=row.pk).exists():
                raise UniquenessException(detail=_TAKEN)
            row.name = name
            row.save()
        if kept is None:
            kept = ProvisionedGroup(group=row)
        kept.external_id = external_id(said)
        kept.save()
        _fill(row, _wanted(said), key=key)
    return find(key, str(row.pk))


def remove(row: Group) -> None:
    """Empty a locked group that the directory made. The row stays: without it the tools reserved to it were open."""
    kept: ProvisionedGroup | None = getattr(row, "provisioned", None)
    if kept is None or not kept.is_made_here:
        raise MutabilityException(detail=_NOT_ITS_OWN)
    with transaction.atomic():
        _fill(row, set(), key=None)
        kept.removed_at = timezone.now()
        kept.save()


def _fill(row: Group, wanted: Collection[int], *, key: ApiKey | None) -> None:
    """Let exactly these people be members, of those that the directory sees; without a key: of everybody."""
    is_whole = key is None
    sees = User.objects.all() if is_whole else people.visible()
    members = sees.filter(groups=row)
    has = set(members.values_list("pk", flat=True))
    new, gone = set(wanted) - has, has - set(wanted)
    if not is_whole and len(new) + len(gone) > MOST_CHANGED:
        words = f"One request changes at most {MOST_CHANGED} members of a group. Send several with fewer."
        raise PayloadTooLargeException(detail=words)
    joining = list(people.visible().filter(pk__in=new))
    if len(joining) < len(new):
        words = "A member is no user that the directory sees. Send users before the groups that they are in."
        raise InvalidValueException(detail=words)
    if key is not None and joining and opens_console([row]) and not key.held_groups().filter(pk=row.pk).exists():
        raise MutabilityException(detail=_A_ROLE)
    leaving = list(User.objects.filter(pk__in=gone))
    if joining:
        row.user_set.add(*joining)
    if leaving:
        row.user_set.remove(*leaving)
    if opens_console([row]):
        for person in joining:
            keep_console(person, given=[row], lost=())
        for person in leaving:
            keep_console(person, given=(), lost=[row])


def _wanted(said: DirectoryGroup) -> set[int]:
    numbers = [each.value or "" for each in said.members or ()]
    if any(not (number.isascii() and number.isdecimal() and len(number) < 10) for number in numbers):
        raise InvalidValueException(detail="The value of a member is the id of a user. Groups are no members here.")
    return {int(number) for number in numbers}


def _name(said: DirectoryGroup) -> str:
    name = (said.display_name or "").strip()
    if not name or len(name) > 150 or not name.isprintable():
        raise InvalidValueException(detail="displayName has 1 to 150 letters that can be seen.")
    return name


def _made(name: str) -> Group:
    try:
        with transaction.atomic():
            return Group.objects.create(name=name)
    except IntegrityError as error:  # another request was first
        raise UniquenessException(detail=_TAKEN) from error
