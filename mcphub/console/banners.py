"""States of the hub on every page of the console, above the page's own content."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _t

from mcphub.parts import ConsoleBanner
from mcphub.process import unenforced
from sessions_app.kit.features import declared, loaded


@dataclass(frozen=True, slots=True)
class BannerLink:
    words: str
    address: str


@dataclass(frozen=True, slots=True)
class Banner:
    """A state of the hub that whoever opens the console must know of."""

    title: str
    words: str
    icon: str
    link: BannerLink | None = None
    """What to do about it, for those who may."""


def shown(request: HttpRequest) -> dict[str, object]:
    """Return templates the banners: a context processor that asks nothing itself."""
    return {"hub_banners": SimpleLazyObject(lambda: _banners(request))}


def _banners(request: HttpRequest) -> list[Banner]:
    missing = [
        Banner(_t("Calls are not protected as configured."), words, "gpp_bad") for words in unenforced.sentences()
    ]
    return [*missing, *(banner for part in declared(ConsoleBanner) for banner in loaded(part.banners)(request))]
