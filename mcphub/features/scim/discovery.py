"""The hub's description of itself as a SCIM service (RFC 7644, section 4), made from its resources."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from scim2_models import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    ETag,
    Filter,
    Meta,
    Patch,
    Reference,
    ResourceType,
    Schema,
    ServiceProviderConfig,
    Sort,
)

from mcphub.features.scim.resources import DirectoryGroup, DirectoryUser, address

Described = TypeVar("Described", ResourceType, Schema)

MOST_SHOWN = 200
"""Rows of one page."""
SHOWN = 100


@cache
def config() -> ServiceProviderConfig:
    return ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MOST_SHOWN),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=False),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="API key",
                description="A key of the hub with the scope people:write, as a bearer token.",
                primary=True,
            )
        ],
        meta=Meta(resource_type="ServiceProviderConfig", location=Reference(address("ServiceProviderConfig"))),
    )


@cache
def resource_types() -> dict[str, ResourceType]:
    made = [ResourceType.from_resource(model) for model in (DirectoryUser, DirectoryGroup)]
    return {str(each.id): _placed(each, "ResourceTypes") for each in made}


@cache
def schemas() -> dict[str, Schema]:
    made = [model.to_schema() for model in (DirectoryUser, DirectoryGroup)]
    for each, name in zip(made, ("User", "Group"), strict=True):
        each.name = name
    return {str(each.id): _placed(each, "Schemas") for each in made}


def _placed(described: Described, kind: str) -> Described:
    location: Reference[Any] = Reference(f"{address(kind)}/{described.id}")
    described.meta = Meta(resource_type=type(described).__name__, location=location)
    return described
