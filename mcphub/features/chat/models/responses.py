"""Table of `/v1/responses`: the conversation at the end of each response."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from invocations.redaction import records
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.json import Json


class ChatResponse(models.Model):
    """One response, kept so that the next one may go on from it. Never changed: two may go on from the same one."""

    id = models.CharField(_("ID"), primary_key=True, max_length=40)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    model = models.CharField(_("model"), max_length=250)
    previous_id = models.CharField(_("continues"), max_length=40, blank=True)
    messages = JSONText(_("messages"), help_text=_("The whole conversation, without instructions."))
    """A text: encrypted, as `body` is, since nobody but the caller reads them. `seal` writes them."""
    labels = JSONText(_("listed servers"), default=list)
    body = JSONText(_("response"))
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("kept until"))

    class Meta:
        verbose_name = _("response")
        verbose_name_plural = _("responses")
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["expires_at"], name="chat_response_expiry")]  # the sweep

    def __str__(self) -> str:
        return self.id

    def seal(self, messages: list[dict[str, Json]], body: dict[str, Json]) -> None:
        self.messages = records.seal(messages, of=f"response {self.id} messages")
        self.body = records.seal(body, of=f"response {self.id} body")

    def said(self) -> list[dict[str, Json]]:
        """Return the messages; raise SecretError where the key is gone."""
        sealed = isinstance(self.messages, str)
        return list(records.unseal(self.messages, of=f"response {self.id} messages") if sealed else self.messages)

    def told(self) -> dict[str, Json]:
        """Return the response as its client got it; raise SecretError where the key is gone."""
        return dict(
            records.unseal(self.body, of=f"response {self.id} body") if isinstance(self.body, str) else self.body
        )
