from django.utils.translation import gettext_lazy as _

from mcphub.parts import (
    ConsolePage,
    DoctorCheck,
    EvidenceFile,
    PageRoutes,
    RestExamples,
    RestResource,
    Verbs,
    VerifiedCopy,
)
from sessions_app.kit.features import FeatureConfig


class ArchiveConfig(FeatureConfig):
    name = "mcphub.features.archive"
    label = "archive"
    verbose_name = _("Archive")
    parts = (
        Verbs("audit", "mcphub.features.archive.command"),
        Verbs("audit", "mcphub.features.archive.search_command"),
        RestResource(
            "audit/archive",
            "mcphub.features.archive.rest:ArchivedCallViewSet",
            _("Calls of closed months, found in the archive."),
            basename="archived-call",
        ),
        PageRoutes("mcphub.features.archive.pages", below="admin/"),
        ConsolePage(
            "calls",
            _("Archive"),
            "inventory_2",
            "archive",
            place=50,
            docs="audit/audit#search-the-archive",
            words=_("archived calls old closed months parquet search"),
            permissions=("invocations.view_mcptoolinvocation",),
        ),
        RestExamples("mcphub.features.archive.examples"),
        DoctorCheck(_("archive"), "mcphub.features.archive.doctor:check"),
        EvidenceFile(
            "archived.jsonl",
            _("Archived months"),
            "mcphub.features.archive.evidence:archived",
            _(
                "Rows that retention removed are not in the other files. The archive at “place” proves them: run "
                "“mcphub audit verify --archive”. A month is “as signed”, “missing” or “unreadable” there, or "
                "“elsewhere”, where this evidence did not look."
            ),
        ),
        VerifiedCopy(
            "archive",
            "an archive of closed months (MCPHUB_ARCHIVE_DIR), verified as one chain with the database",
            "MCPHUB_ARCHIVE_DIR",
            "mcphub.features.archive.verifying:verify",
        ),
    )
