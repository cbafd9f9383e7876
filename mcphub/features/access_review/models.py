"""Access reviews: the grants at the beginning of a review, each with the decision to keep it or take it away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.accountable import Party
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.fields import JSONText
from sessions_app.workspaces.scope import InWorkspace, OwnedModel, OwnedQuerySet, Scope
from tools_catalog.catalog.toolsets import matches

MOST_REVIEWERS = 50
UNUSED_DAYS = 90
LONGEST_REASON = 300


class AccessReviewQuerySet(OwnedQuerySet["AccessReview"]):
    def counted(self) -> AccessReviewQuerySet:
        """Add the numbers of rows, of kept, taken and undecided ones."""
        decided = {word: Count("rows", filter=Q(rows__decision=word)) for word in ("keep", "take_away")}
        return self.annotate(
            row_count=Count("rows"),
            kept_count=decided["keep"],
            taken_count=decided["take_away"],
            undecided_count=Count("rows", filter=Q(rows__decision="")),
        )


class AccessReview(OwnedModel, RecordedModel):
    """A review of access. Within a workspace it has that workspace's people and keys alone."""

    RECORDED_AS = "access_review"

    name = models.CharField(_("name"), max_length=100, help_text=_("Such as: Quarterly review Q3."))
    group = models.ForeignKey(
        Group,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("group"),
        help_text=_("Reviews this group's people and keys. Leave blank for all."),
    )
    tools = models.TextField(
        _("tools"),
        blank=True,
        max_length=2000,
        help_text=_("Reviews access to tools with matching names: pay.* tickets.read_? Leave blank for all."),
    )
    due_at = models.DateTimeField(_("due"), help_text=_("Reviewers decide until then."))
    reviewers = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        verbose_name=_("reviewers"),
        related_name="+",
        help_text=_("They decide about everybody's access but their own."),
    )
    started_by = models.CharField(_("started by"), max_length=150, editable=False)
    started_at = models.DateTimeField(_("started"), default=timezone.now, editable=False)
    closed_by = models.CharField(_("closed by"), max_length=150, blank=True, editable=False)
    closed_at = models.DateTimeField(_("closed"), null=True, blank=True, editable=False)

    objects: ClassVar[Any] = AccessReviewQuerySet.as_manager()

    class Meta:
        verbose_name = _("access review")
        verbose_name_plural = _("access reviews")
        default_permissions = ("add", "change", "view")
        permissions = [("decide_accessreview", _("Can decide about reviewed access"))]
        ordering = ["-started_at", "-id"]
        constraints = [models.CheckConstraint(condition=~Q(name=""), name="access_review_named")]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """`open`, `overdue` or `closed`."""
        if self.closed_at is not None:
            return "closed"
        return "open" if self.due_at > timezone.now() else "overdue"

    @property
    def patterns(self) -> list[str]:
        return self.tools.split()

    def covers_tool(self, name: str) -> bool:
        return not self.patterns or matches(name, self.patterns)

    def clean(self) -> None:
        self.tools = " ".join(self.tools.split())
        if self.closed_at is not None:
            raise ValidationError(_("This review is closed. Start another one."))
        if self.due_at is not None and self.due_at <= timezone.now():
            raise ValidationError({"due_at": _("Enter a time in the future.")})

    def is_reviewed_by(self, user: Any) -> bool:
        return self.reviewers.filter(pk=user.pk or 0).exists()


class ReviewedGrantQuerySet(OwnedQuerySet["ReviewedGrant"]):
    def undecided(self) -> ReviewedGrantQuerySet:
        return self.filter(decision="")


class ReviewedGrant(InWorkspace):
    """One grant as it was when the review began: what a principal may call by it, and when that was last done."""

    class Kind(models.TextChoices):
        ACCOUNT = "account", _("Account")
        MEMBERSHIP = "membership", _("Group membership")
        KEY = "key", _("API key")
        APP = "app", _("Authorized app")

    class Decision(models.TextChoices):
        KEEP = "keep", _("Keep")
        TAKE_AWAY = "take_away", _("Take away")

    review = models.ForeignKey(AccessReview, models.CASCADE, related_name="rows", verbose_name=_("access review"))
    kind = models.CharField(_("kind"), max_length=12, choices=Kind)
    principal = models.CharField(_("principal"), max_length=64)
    label = models.CharField(_("holder"), max_length=200)
    subject = models.CharField(max_length=64)
    """The number of the key, the consent, the group or the person."""
    grant = models.CharField(_("by"), max_length=200)
    through = JSONText(_("through"), default=dict)
    """Scopes, groups, toolsets and workspaces by which the tools are open."""
    tool_count = models.PositiveIntegerField(_("tools"))
    tool_names = JSONText(default=list)
    """The first of them."""
    last_used_at = models.DateTimeField(_("last used"), null=True)
    is_unused = models.BooleanField(_("unused for 90 days"), default=False)
    decision = models.CharField(_("decision"), max_length=10, choices=Decision, blank=True)
    reason = models.CharField(_("reason"), max_length=LONGEST_REASON, blank=True)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True)

    objects: ClassVar[Any] = ReviewedGrantQuerySet.as_manager()

    class Meta:
        verbose_name = _("reviewed grant")
        verbose_name_plural = _("reviewed grants")
        default_permissions = ("view",)
        ordering = ["label", "kind", "id"]
        constraints = [
            models.UniqueConstraint(fields=["review", "principal", "kind", "subject"], name="reviewed_grant_once"),
            models.CheckConstraint(
                condition=Q(decision="", decided_at=None) | (~Q(decision="") & Q(decided_at__isnull=False)),
                name="reviewed_grant_decided_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label}: {self.grant}"

    @classmethod
    def owned_in(cls, scope: Scope) -> Q:
        return Q(review__workspace=scope.workspace)

    @classmethod
    def seen_in(cls, scope: Scope) -> Q:
        return cls.owned_in(scope)

    @property
    def party(self) -> Party:
        return Party(self.principal, f"key:{self.subject}" if self.kind == self.Kind.KEY else "")

    @property
    def state(self) -> str:
        """Its decision, or else `undecided` or `overdue`."""
        if self.decision:
            return str(self.decision)
        return "undecided" if self.review.state == "open" else "overdue"


def refuse_reviewers(people: Iterable[Any], workspace: int | None) -> None:
    """Raise ValidationError where one of them could not decide."""
    from sessions_app.workspaces.roles import rights_in

    chosen = list(people)
    if not chosen or len(chosen) > MOST_REVIEWERS:
        words = _t("Choose 1 to %(most)d reviewers.") % {"most": MOST_REVIEWERS}
        raise ValidationError({"reviewers": words})
    right = "access_review.decide_accessreview"
    unable = [
        each.get_username()
        for each in chosen
        if not each.is_active
        or not (each.has_perm(right) or (workspace is not None and right in rights_in(each, workspace)))
    ]
    if unable:
        words = _t("%(names)s can't decide about access: give them a role that may, or choose others.")
        raise ValidationError({"reviewers": words % {"names": ", ".join(sorted(unable))}})
