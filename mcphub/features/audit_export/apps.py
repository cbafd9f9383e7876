from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from mcphub.parts import (
    ConsolePage,
    ConsoleSettings,
    DoctorCheck,
    HubService,
    NoticeKind,
    RestResource,
    RolePermissions,
    Verbs,
)
from sessions_app.kit.features import FeatureConfig


class AuditExportConfig(FeatureConfig):
    name = "mcphub.features.audit_export"
    label = "audit_export"
    verbose_name = _("Audit export")
    parts = (
        Verbs("audit", "mcphub.features.audit_export.command"),
        RestResource(
            "audit/shipping",
            "mcphub.features.audit_export.rest:ShippingTargetViewSet",
            _("Destinations that receive the audit log, and their progress."),
        ),
        ConsolePage(
            "evidence",
            _("Audit export"),
            "outbox",
            "invocations_shippingtarget",
            place=70,
            words=_("siem splunk syslog log streaming backup csv"),
            about=_(
                "An export destination gets a copy of the sealed audit log: a SIEM, a syslog server, an object "
                "store or a folder."
            ),
            docs="audit/export",
        ),
        ConsoleSettings("audit", "invocations_shippingtarget", _("Where the sealed audit log is streamed to.")),
        HubService("audit export", "mcphub.features.audit_export.hub:AuditExport"),
        NoticeKind(
            "shipping.behind",
            _("The audit export is failing"),
            _("%(target)s is missing %(rows)s sealed rows of the audit log. %(problem)s"),
            "invocations.view_shippingtarget",
            "invocations_shippingtarget",
            is_alarm=True,
            ends=True,
            states="mcphub.features.audit_export.service:late",
        ),
        DoctorCheck(_("audit export"), "mcphub.features.audit_export.doctor:check"),
        RolePermissions(("invocations.view_shippingtarget",), ("Auditor",)),
        EventSubject("shippingtarget", _("audit export")),
    )
