"""The page on which a configuration becomes connections: looked at first, filled in, chosen from, saved."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from mcphub.features.importers.admin.configured import rights, trying
from mcphub.features.importers.configured import cards, known, registry, saving, sources
from mcphub.features.importers.configured.drafts import Draft, Text, words_shown
from mcphub.features.importers.configured.sources import MAX_BYTES, ReadConfiguration
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.kit.admin import drafts
from sessions_app.kit.admin.base import HubAdmin
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol import json
from tools_catalog import secrets

_LOOKED_AT = "mcphub_servers"
_MOST_FIELDS = 900
"""Of one form; Django takes 1000."""


class BringForm(forms.Form):
    text = forms.CharField(
        label=_("URL, command or configuration"),
        required=False,
        max_length=MAX_BYTES,
        widget=UnfoldAdminTextareaWidget(
            attrs={
                "rows": 10,
                "spellcheck": "false",
                "autocomplete": "off",
                "placeholder": "https://mcp.example.com/mcp",
            }
        ),
        help_text=_(
            "A server's URL; a command such as npx -y @modelcontextprotocol/server-memory; the line that "
            "adds a server to a client (claude mcp add …); or a configuration of Claude Desktop, Claude "
            "Code, Cursor, VS Code, Zed, Codex, Windsurf, Cline, Roo Code, Gemini CLI, opencode, Goose or "
            "Continue, or a registry's server.json: JSON, with comments, TOML or YAML."
        ),
    )
    document = forms.FileField(label=_("or a file"), required=False, widget=UnfoldAdminFileFieldWidget)
    source = forms.CharField(
        label=_("or the URL of a server.json"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Fetched without credentials."),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if sum(bool(cleaned.get(name)) for name in ("text", "document", "source")) != 1:
            self.add_error("text", _t("Enter one of the three: text, a file or a URL."))
        elif cleaned.get("document") and cleaned["document"].size > MAX_BYTES:
            self.add_error("document", _t("The file is larger than %(most)d bytes.") % {"most": MAX_BYTES})
        return cleaned

    def raw(self) -> bytes:
        """Return the text, wherever it is. Raises DocumentRefused."""
        given = self.cleaned_data
        if given["source"]:
            return async_to_sync(registry.fetch)(given["source"].strip())
        if given["document"]:
            return bytes(given["document"].read())
        return async_to_sync(cards.found)(given["text"]).encode("utf-8", "replace")


def import_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Preview a configuration, or save the selected parts of the previewed one."""
    rights.check(request)
    if request.method == "POST" and "looked_at" in request.POST:
        return _save(admin, request)
    if request.method == "GET" and (name := request.GET.get("known")):
        return _choose(admin, request, name)
    is_given = request.method == "POST"
    initial = {"source": request.GET.get("source", "")}
    form = BringForm(request.POST, request.FILES, initial=initial) if is_given else BringForm(initial=initial)
    if is_given and form.is_valid():
        try:
            raw = form.raw()
            found = sources.read(raw)
            if sum(len(draft.blanks) + 6 for draft in found.drafts) > _MOST_FIELDS:
                raise DocumentRefused(
                    _t("The servers have too many values to fill in on one page. Import fewer at once.")
                )
        except DocumentRefused as error:
            form.add_error("source" if form.cleaned_data["source"] else "text", visible(str(error)))
        else:
            return _look(admin, request, {"text": raw.decode()}, found)
    return _page(admin, request, form=form)


def _choose(admin: HubAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """Look at a known server."""
    state = {"known": name, "program": bool(request.GET.get("program"))}
    try:
        found = _read(state)
    except LookupError:
        messages.warning(request, _t("The hub has no known server named %(name)s.") % {"name": clipped(name, 60)})
        return redirect("admin:connection_known")
    return _look(admin, request, state, found)


def _look(admin: HubAdmin, request: HttpRequest, state: dict[str, Any], found: ReadConfiguration) -> HttpResponse:
    plain = json.dumps(state)
    # What was pasted holds credentials: it waits in the session as secrets do.
    kept = base64.b64encode(zlib.compress(plain)).decode("ascii")
    drafts.keep(request, _LOOKED_AT, secrets.encrypt(kept, aad=_bound_to(request)))
    return _page(admin, request, seen=hashlib.sha256(plain).hexdigest(), **_shown(request, found, {}))


def _save(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    here = reverse("admin:connection_import")
    plain = _looked_at(request)
    if plain is None or hashlib.sha256(plain).hexdigest() != request.POST["looked_at"]:  # of another tab, or gone
        messages.error(request, _t("The configuration has expired. Enter it again."))
        return redirect(here)
    found = _read(json.loads(plain))
    chosen, refused = [], []
    for number, draft in enumerate(found.drafts):
        if str(number) not in request.POST.getlist("chosen"):
            continue
        values = _values(request, number, draft)
        slug = request.POST.get(f"slug-{number}", "").strip() or draft.slug
        why = rights.refusal_of(request.user, draft) or rights.refusal_of_values(request.user, draft, values)
        if why:
            refused.append((slug, why))
        has_network = f"network-{number}" in request.POST
        reads, writes = (_paths(request, draft, number, kind) for kind in ("readable", "writable"))
        chosen.append(
            saving.Chosen(
                draft=draft, slug=slug, values=values, has_network=has_network, readable=reads, writable=writes
            )
        )
    if not chosen:
        messages.error(request, _t("Choose at least one server."))
    elif not refused:
        saved = saving.save(chosen, reason=_t("import of a configuration"))
        refused = saved.refused
        if not refused:
            drafts.drop(request, _LOOKED_AT)
            done = ngettext("%(count)d connection saved.", "%(count)d connections saved.", len(saved.connections))
            messages.success(request, done % {"count": len(saved.connections)})
            ids = ",".join(str(row.pk) for row in saved.connections)
            if "test" in request.POST:
                request.session[trying.TEST_AT_ONCE] = ids
            return redirect(f"{reverse('admin:connection_imported')}?ids={ids}")
    if refused:
        messages.error(request, _t("Nothing was saved. Correct the marked entries, or deselect them."))
    shown = _shown(request, found, dict(refused))
    return _page(admin, request, seen=hashlib.sha256(plain).hexdigest(), **shown)


def _looked_at(request: HttpRequest) -> bytes | None:
    try:
        kept = secrets.decrypt(drafts.find(request, _LOOKED_AT) or "", aad=_bound_to(request))
    except secrets.SecretError:
        return None
    return zlib.decompress(base64.b64decode(kept))


def _bound_to(request: HttpRequest) -> str:
    return f"session:{request.user.pk}:servers"


def _read(state: Mapping[str, Any]) -> ReadConfiguration:
    """Read the previewed configuration again; raises LookupError for an unknown server."""
    if "known" in state:
        return ReadConfiguration((known.draft_of(known.find(state["known"]), by_program=state["program"]),))
    return sources.read(state["text"])


def _values(request: HttpRequest, number: int, draft: Draft) -> dict[str, str]:
    given = {blank.name: request.POST.get(f"value-{number}-{at}", "") for at, blank in enumerate(draft.blanks)}
    return {name: value for name, value in given.items() if value}


def _paths(request: HttpRequest, draft: Draft, number: int, kind: str) -> list[str] | None:
    """Return the entered paths; None if the draft's are unchanged, so that they are filled in."""
    given = request.POST.get(f"{kind}-{number}")
    return None if given is None or given.strip() == _joined(draft, kind) else given.split()


def _joined(draft: Draft, kind: str) -> str:
    return " ".join(_line(draft, path) for path in getattr(draft, kind))


def _shown(request: HttpRequest, found: ReadConfiguration, refused: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the second step: each server with its command, secrets and missing values."""
    slugs = saving.free_slugs(found.drafts)
    there = saving.there_already(found.drafts)
    is_again = request.method == "POST" and "looked_at" in request.POST
    rows = []
    for number, (draft, free) in enumerate(zip(found.drafts, slugs, strict=True)):
        closed = draft.problem or rights.refusal_of(request.user, draft)
        slug = request.POST.get(f"slug-{number}", free) if is_again else free
        is_chosen = (
            str(number) in request.POST.getlist("chosen") if is_again else not closed and draft.name not in there
        )
        rows.append(
            {
                "number": number,
                "name": clipped(draft.name, 100),
                "slug": clipped(slug, 32),
                "is_chosen": is_chosen and not closed,
                "closed": visible(closed),
                "there": there.get(draft.name, ""),
                "error": visible(refused.get(slug, "")),
                "runs": _command(draft) if draft.runs_program else None,
                "variables": _pairs(draft, draft.environment),
                "folder": _line(draft, draft.directory),
                "reaches": "" if draft.runs_program else _line(draft, draft.url),
                "transport": draft.transport,
                "headers": _pairs(draft, draft.headers),
                "has_network": (f"network-{number}" in request.POST) if is_again else draft.fetches,
                "readable": request.POST.get(f"readable-{number}", "") if is_again else _joined(draft, "readable"),
                "writable": request.POST.get(f"writable-{number}", "") if is_again else _joined(draft, "writable"),
                "notes": [visible(note) for note in draft.notes],
                "is_off": not draft.enabled,
                "fields": [_field(request, number, at, blank, is_again) for at, blank in enumerate(draft.blanks)],
            }
        )
    left = [(clipped(name, 100), visible(why)) for name, why in found.refused]
    return {"rows": rows, "left": left, "can_save": any(not row["closed"] for row in rows)}


def _field(request: HttpRequest, number: int, at: int, blank: Any, is_again: bool) -> dict[str, Any]:
    name = f"value-{number}-{at}"
    value = "" if blank.is_secret else (request.POST.get(name, blank.value) if is_again else blank.value)
    return {
        "name": name,
        "label": clipped(blank.name, 100),
        "words": visible(blank.words),
        "is_secret": blank.is_secret,
        "mask": secrets.mask(blank.value) if blank.is_secret and blank.value else "",
        "value": value,
        "choices": blank.choices,
        "is_required": blank.is_required,
        "is_missing": blank.is_missing,
    }


def _command(draft: Draft) -> list[str]:
    return [_line(draft, word) for word in (draft.command, *draft.arguments)]


def _pairs(draft: Draft, texts: Sequence[tuple[str, Text]]) -> list[tuple[str, str]]:
    return [(visible(name, one_line=True), _line(draft, text)) for name, text in texts]


def _line(draft: Draft, text: Text) -> str:
    return visible(words_shown(draft, text), one_line=True)


def _page(admin: HubAdmin, request: HttpRequest, **more: Any) -> TemplateResponse:
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": _t("Paste and connect"),
        "step": 1 if "form" in more else 2,
        "back": reverse("admin:tools_catalog_mcpconnection_changelist"),
        **more,
    }
    return TemplateResponse(request, "admin/hub/servers.html", context)
