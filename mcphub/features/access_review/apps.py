from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, EvidenceFile, HubCommand, NoticeKind, PaletteAction, RestResource, RolePermissions
from sessions_app.kit.features import FeatureConfig


class AccessReviewConfig(FeatureConfig):
    name = "mcphub.features.access_review"
    label = "access_review"
    verbose_name = _("Access reviews")
    requires = ("signin",)
    parts = (
        HubCommand(
            "access-review",
            "review who may call what: start, list, show, decide, close",
            "mcphub.features.access_review.command",
        ),
        RestResource("access-reviews", "mcphub.features.access_review.rest:AccessReviewViewSet", _("Access reviews.")),
        RestResource(
            "reviewed-grants",
            "mcphub.features.access_review.rest:ReviewedGrantViewSet",
            _("The grants of access reviews, with their decisions."),
        ),
        ConsolePage(
            "access",
            _("Access reviews"),
            "fact_check",
            "access_review_accessreview",
            place=58,
            group=_("Reviews"),
            docs="secure/access-review",
            words=_("recertification attestation campaign user access review"),
            about=_(
                "Add one to decide about access to tools, grant by grant. It begins with all current access and its "
                "last use."
            ),
        ),
        ConsolePage(
            "access",
            _("Reviewed access"),
            "checklist",
            "access_review_reviewedgrant",
            place=59,
            group=_("Reviews"),
            docs="secure/access-review#what-is-listed",
            words=_("keep take away unused access decisions"),
            about=_("Start an access review: its people, keys and apps are listed here for a decision."),
        ),
        PaletteAction(
            _("Start an access review"),
            "fact_check",
            "admin:access_review_accessreview_add",
            ("access_review.add_accessreview",),
            _("recertification attestation campaign user access review"),
        ),
        NoticeKind(
            "review.due",
            _("An access review is due soon"),
            _("%(review)s is due at %(due)s: %(count)s undecided. Reviewers: %(reviewers)s."),
            "access_review.view_accessreview",
            "access_review_accessreview",
            ends=True,
            states="mcphub.features.access_review.states:due",
        ),
        NoticeKind(
            "review.overdue",
            _("An access review is overdue"),
            _(
                "%(review)s was due at %(due)s: %(count)s undecided, which stay as they are. Reviewers: %(reviewers)s. "
                "Move its due date, or close it."
            ),
            "access_review.view_accessreview",
            "access_review_accessreview",
            ends=True,
            states="mcphub.features.access_review.states:overdue",
        ),
        EvidenceFile("access-reviews.jsonl", _("Access reviews"), "mcphub.features.access_review.states:evidence"),
        RolePermissions(
            (
                "access_review.view_accessreview",
                "access_review.view_reviewedgrant",
                "access_review.decide_accessreview",
            ),
            ("Auditor", "Operator"),
        ),
        RolePermissions(("access_review.add_accessreview", "access_review.change_accessreview"), ("Auditor",)),
    )
