"""The table of guesses: the time of the next allowed attempt. All processes of the hub read and write it."""

from __future__ import annotations

from django.db import models


class LoginLimit(models.Model):
    """Failed guesses from one address, at one name, or at one name from an address where it has logged in before.

    `ALL` is one row: the failed guesses of the minute that began at `failed_at`, which bounds their events.
    """

    class Kind(models.TextChoices):
        ADDRESS = "address"
        NAME = "name"
        PAIR = "pair"
        ALL = "all"

    id = models.CharField(max_length=64, primary_key=True)
    """A digest: the text entered as a name may be a password."""
    kind = models.CharField(max_length=8, choices=Kind)
    address = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=150, blank=True)
    """Of an account that exists; otherwise empty."""
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True, blank=True)
    blocked_until = models.DateTimeField(null=True, blank=True)
    refused = models.PositiveIntegerField(default=0)
    """Guesses without an event yet: refused during the pause; of `ALL` those beyond the minute's bound."""
    known_at = models.DateTimeField(null=True, blank=True)
    """Of a pair: when the name last logged in from the address."""

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["failed_at"], name="login_limit_purge")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name or self.address or self.id[:12]}"
