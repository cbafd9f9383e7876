from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from invocations.stages import CallStage
from mcphub.parts import (
    ConsolePage,
    ConsoleSettings,
    EvidenceFile,
    HostPages,
    HubCommand,
    HubMetrics,
    HubService,
    MyAccessPart,
    NoticeKind,
    PendingRows,
    PeriodicSweep,
    RestExamples,
    RestResource,
    RolePermissions,
    RowsInForce,
)
from sessions_app.bus import FollowedRows
from sessions_app.kit.features import FeatureConfig


class ApprovalsConfig(FeatureConfig):
    name = "mcphub.features.approvals"
    label = "approvals"
    verbose_name = _("Approvals")
    embeds = True
    parts = (
        FollowedRows("approvals_changed", "mcphub.features.approvals.asking:load_policies", reads_catalog=True),
        CallStage("mcphub.features.approvals.releasing:OwnDemand"),
        CallStage("mcphub.features.approvals.releasing:Approvals"),
        CallStage("mcphub.features.approvals.releasing:TaskApprovals"),
        HubService("approvals", "mcphub.features.approvals.service:ApprovalService"),
        PeriodicSweep("mcphub.features.approvals.asking:sweep"),
        HubMetrics("mcphub.features.approvals.metrics:outcomes"),
        HubCommand(
            "approval",
            "list, show, approve and deny calls that wait for a person's yes",
            "mcphub.features.approvals.command",
        ),
        RestResource(
            "approvals",
            "mcphub.features.approvals.rest:ApprovalViewSet",
            _("Calls that wait for approval, and past decisions."),
        ),
        RestExamples("mcphub.features.approvals.examples"),
        ConsolePage(
            "inbox",
            _("Calls to approve"),
            "how_to_reg",
            "invocations_mcpapproval",
            "a",
            place=5,
            words=_("approve pending human review confirm"),
            about=_(
                "Calls that need a person's yes wait here. A call rule with the effect Ask, or an approval policy, "
                "sends them here."
            ),
            docs="secure/approvals",
            first_step="tools_catalog_mcppolicyrule",
        ),
        ConsolePage(
            "rules",
            _("Approval policies"),
            "rule",
            "invocations_mcptoolapproval",
            place=8,
            words=_("human in the loop confirmation"),
            about=_("An approval policy makes the calls of a tool wait for a person."),
            docs="secure/approvals",
        ),
        ConsoleSettings("tools", "invocations_mcptoolapproval", _("Tools whose calls wait for approval, or never do.")),
        PendingRows(
            _("Calls waiting for approval"),
            "invocations_mcpapproval",
            "mcphub.features.approvals.asking:waiting",
            "?state=pending",
        ),
        HostPages("mcphub.features.approvals.models:McpApproval", "mcphub.features.approvals.host_pages:ApprovalPages"),
        MyAccessPart("mcphub.features.approvals.own_approvals:PART", place=28),
        RolePermissions(("invocations.view_mcpapproval", "invocations.view_mcptoolapproval")),
        RolePermissions(
            ("invocations.decide_mcpapproval", "invocations.add_mcptoolapproval", "invocations.change_mcptoolapproval"),
            ("Operator",),
        ),
        RowsInForce(
            "invocations_mcptoolapproval",
            "policy <> 'never'",
            _("The feature approvals is off. Approval policies whose calls wait for nobody: %(count)d."),
        ),
        NoticeKind(
            "approval.waits",
            _("A call is waiting for approval"),
            _("%(caller)s wants to call %(tool)s. Approve or deny the call; it expires at %(expires)s."),
            "invocations.view_mcpapproval",
            "invocations_mcpapproval",
            ends=True,
            states="mcphub.features.approvals.notices:waiting",
            outcome="mcphub.features.approvals.notices:decision_of",
            shared=("tool", "caller", "expires", "decision"),
        ),
        EvidenceFile("approvals.jsonl", _("Approvals of calls"), "mcphub.features.approvals.evidence:approvals"),
        EventSubject("mcptoolapproval", _("approval policies")),
        EventSubject("call", _("calls that waited for approval")),
    )

    def ready(self) -> None:
        from mcphub.features.approvals import reach
        from mcphub.features.approvals.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        reach.connect()
        install_after_migrate(self, RULES)
