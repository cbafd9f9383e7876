"""A directory's operations on accounts. Superusers, and accounts of services, are out of its sight and reach."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from oauth2_provider.models import Application
from scim2_models import InvalidValueException, NotFoundException, UniquenessException

from mcphub.console_access import keep_console
from mcphub.features.login.models import LinkedIdentity
from mcphub.features.scim.models import ProvisionedPerson
from mcphub.features.scim.resources import DirectoryUser, external_id

_TAKEN = (
    "An account with this userName exists already. If it is the person's, let an operator rename it or give it to the "
    "directory; superusers and services are never given to a directory."
)
_REASON = "by the directory"
_LONGEST_NAME = 150


def visible() -> QuerySet[User]:
    of_services = Application.objects.filter(authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS)
    services = of_services.filter(user__isnull=False).values("user")
    rows = User.objects.filter(is_superuser=False, provisioned__removed_at=None)
    return rows.exclude(pk__in=services).select_related("provisioned")


def find(number: str, *, for_change: bool = False) -> User:
    """Raises NotFoundException."""
    is_id = number.isascii() and number.isdecimal() and len(number) < 10
    rows = visible().select_for_update(of=("self",)) if for_change else visible()
    row = rows.filter(pk=int(number)).first() if is_id else None
    if row is None:
        raise NotFoundException(detail="There is no such user. The directory can ask for it by userName.")
    return row


def make(said: DirectoryUser) -> User:
    """Raises UniquenessException, InvalidValueException."""
    row = User()
    row.set_unusable_password()
    row.is_active = said.active is not False
    with transaction.atomic():
        _write(row, said)
        ProvisionedPerson.objects.create(user=row, external_id=external_id(said), is_made_here=True)
    return find(str(row.pk))


def change(row: User, said: DirectoryUser) -> User:
    """Update a locked account from the directory's data. `active` left out leaves it as it is."""
    before = (row.username, row.email, row.first_name, row.last_name, row.is_active)
    if said.active is not None:
        row.is_active = said.active
    row.change_reason = _REASON  # type: ignore[attr-defined]
    with transaction.atomic():
        fields = _described(row, said)
        if fields != before[:-1] or row.is_active != before[-1]:
            _write(row, said)
        _keep(row, said)
    return find(str(row.pk))


def remove(row: User) -> None:
    """Disable a locked account for good and free its name. The row stays, as calls on record name it."""
    with transaction.atomic():
        groups = list(row.groups.all())
        row.groups.clear()
        keep_console(row, given=(), lost=groups)
        for link in LinkedIdentity.objects.filter(user=row):
            link.unlink(reason=_REASON)
        row.username = f"{row.username[:120]}.removed-{row.pk}"
        row.is_active = False
        row.change_reason = _REASON  # type: ignore[attr-defined]
        row.save(update_fields=["username", "is_active"])
        kept, _made = ProvisionedPerson.objects.get_or_create(user=row)
        kept.removed_at = timezone.now()
        kept.save()


def _write(row: User, said: DirectoryUser) -> None:
    """Raises UniquenessException, InvalidValueException."""
    row.username, row.email, row.first_name, row.last_name = _described(row, said)
    if User.objects.filter(username__iexact=row.username).exclude(pk=row.pk).exists():
        raise UniquenessException(detail=_TAKEN)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:  # another request was first
        raise UniquenessException(detail=_TAKEN) from error


def _described(row: User, said: DirectoryUser) -> tuple[str, str, str, str]:
    """Return name, address, first and last name; raise InvalidValueException."""
    username = said.user_name or ""
    try:
        UnicodeUsernameValidator()(username)
        if not username or len(username) > _LONGEST_NAME:
            raise ValidationError("length")
    except ValidationError as error:
        words = "userName has 1 to 150 letters, digits and @ . + - _. Map another attribute to it in the directory."
        raise InvalidValueException(detail=words) from error
    first, last = ("", "") if said.name is None else (said.name.given_name or "", said.name.family_name or "")
    for each in (first, last):
        if len(each) > _LONGEST_NAME or not each.isprintable():
            raise InvalidValueException(detail="A name has at most 150 letters that can be seen.")
    return username, _email(said), first, last


def _email(said: DirectoryUser) -> str:
    addresses = [each for each in said.emails or () if each.value]
    chosen = next((each for each in addresses if each.primary), addresses[0] if addresses else None)
    if chosen is None or chosen.value is None:
        return ""
    try:
        validate_email(chosen.value)
        if len(chosen.value) > 254:
            raise ValidationError("length")
    except ValidationError as error:
        raise InvalidValueException(detail="emails.value is no e-mail address.") from error
    return chosen.value


def _keep(row: User, said: DirectoryUser) -> None:
    external = external_id(said)
    kept, is_new = ProvisionedPerson.objects.get_or_create(user=row, defaults={"external_id": external})
    if not is_new and kept.external_id != external:
        kept.external_id = external
        kept.save()
