"""The hub's attributes of people and groups for a directory, a subset of RFC 7643.

Attributes that it does not keep are accepted and dropped (RFC 7644, section 3.3): directories send many.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.contrib.auth.models import Group, User
from pydantic import Field
from scim2_models import (
    URN,
    CaseExact,
    ComplexAttribute,
    ExtensibleStringEnum,
    InvalidValueException,
    Meta,
    Mutability,
    Reference,
    Required,
    Resource,
    ScimPolicy,
    Uniqueness,
)

from mcphub.features.scim.models import ProvisionedGroup, ProvisionedPerson
from sessions_app import endpoints

ROOT = "/scim/v2"
WORK = "work"
"""The one type of address that an account has."""

TOLERANT = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
"""Entra ID removes members by value, and writes to addresses of a type that is not there yet."""


class DirectoryName(ComplexAttribute):
    family_name: str | None = None
    given_name: str | None = None


class DirectoryEmail(ComplexAttribute):
    class Type(ExtensibleStringEnum):
        work = WORK

    value: str | None = None
    type: Type | None = None
    primary: bool | None = None


class DirectoryMembership(ComplexAttribute):
    value: Annotated[str | None, Mutability.read_only, CaseExact.true] = None
    display: Annotated[str | None, Mutability.read_only] = None


class DirectoryUser(Resource[Any]):
    """An account of a person."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    """The name with which the person is known here."""
    name: DirectoryName | None = None
    active: bool | None = None
    """False ends everything of the person at once."""
    emails: list[DirectoryEmail] | None = None
    """The primary address, or else the first one, is kept."""
    groups: Annotated[list[DirectoryMembership] | None, Mutability.read_only] = None


_ToUser = Reference["User"]


class DirectoryMember(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[_ToUser | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )


class DirectoryGroup(Resource[Any]):
    """A group whose members may use the tools reserved to it."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true] = None
    members: list[DirectoryMember] | None = None


def person_shown(row: User, *, with_groups: bool = True) -> DirectoryUser:
    kept: ProvisionedPerson | None = getattr(row, "provisioned", None)
    return DirectoryUser(
        id=str(row.pk),
        external_id=(kept.external_id if kept is not None else "") or None,
        user_name=row.username,
        name=_name(row),
        active=row.is_active,
        emails=[DirectoryEmail(value=row.email, type=DirectoryEmail.Type.work, primary=True)] if row.email else None,
        groups=_memberships(row) if with_groups else None,
        meta=Meta(
            resource_type="User",
            created=row.date_joined,
            last_modified=kept.updated_at if kept is not None else row.date_joined,
            location=Reference(f"{address('Users')}/{row.pk}"),
        ),
    )


def group_shown(row: Group, *, with_members: bool = True) -> DirectoryGroup:
    """Return a group; `row` has its members as `shown_members`, where they are asked for."""
    kept: ProvisionedGroup | None = getattr(row, "provisioned", None)
    people: list[User] = row.shown_members if with_members else []  # type: ignore[attr-defined]
    members = [DirectoryMember(value=str(each.pk), ref=Reference(f"{address('Users')}/{each.pk}")) for each in people]
    return DirectoryGroup(
        id=str(row.pk),
        external_id=(kept.external_id if kept is not None else "") or None,
        display_name=row.name,
        members=members or None,
        meta=Meta(
            resource_type="Group",
            created=kept.made_at if kept is not None else None,
            last_modified=kept.updated_at if kept is not None else None,
            location=Reference(f"{address('Groups')}/{row.pk}"),
        ),
    )


def external_id(said: Resource[Any]) -> str:
    """Return the directory's ID of a person or group, empty without one; raise InvalidValueException."""
    external = said.external_id or ""
    if len(external) > 255 or not external.isprintable():
        raise InvalidValueException(detail="externalId has at most 255 letters that can be seen.")
    return external


def address(kind: str) -> str:
    return f"{endpoints.issuer()}{ROOT}/{kind}"


def _name(row: User) -> DirectoryName | None:
    if not (row.first_name or row.last_name):
        return None
    return DirectoryName(family_name=row.last_name or None, given_name=row.first_name or None)


def _memberships(row: User) -> list[DirectoryMembership] | None:
    return [DirectoryMembership(value=str(each.pk), display=each.name) for each in row.groups.all()] or None
