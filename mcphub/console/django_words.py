"""Django's own sentences with the name of a model, which the hub's catalogue translates anew.

Nothing imports this module; `makemessages` reads it. Django's Russian gives the name no case and takes it for masculine
("Удалить квота", "квота был удален"); the hub's, which comes first, does without either.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop, ngettext

NAMING = (
    gettext_noop("Add %s"),
    gettext_noop("Change %s"),
    gettext_noop("View %s"),
    gettext_noop("Select %s"),
    gettext_noop("Select %s to change"),
    gettext_noop("Select %s to view"),
    gettext_noop("Add another %(verbose_name)s"),
    gettext_noop("Cannot delete %(name)s"),
    gettext_noop("Delete selected %(verbose_name_plural)s"),
    gettext_noop("Successfully deleted %(count)d %(items)s."),
    gettext_noop("The %(name)s “%(obj)s” was deleted successfully."),
    gettext_noop("%(name)s with ID “%(key)s” doesn’t exist. Perhaps it was deleted?"),
    gettext_noop("The {name} “{obj}” was added successfully."),
    gettext_noop("The {name} “{obj}” was added successfully. You may add another {name} below."),
    gettext_noop("The {name} “{obj}” was changed successfully."),
    gettext_noop("The {name} “{obj}” was changed successfully. You may add another {name} below."),
    gettext_noop("The {name} “{obj}” was changed successfully. You may edit it again below."),
    gettext_noop(
        "Deleting the %(object_name)s '%(escaped_object)s' would result in deleting related objects, but your account "
        "doesn't have permission to delete the following types of objects:"
    ),
    gettext_noop(
        "Deleting the %(object_name)s '%(escaped_object)s' would require deleting the following protected related "
        "objects:"
    ),
    gettext_noop(
        'Are you sure you want to delete the %(object_name)s "%(escaped_object)s"? All of the following related items '
        "will be deleted:"
    ),
    gettext_noop(
        "Deleting the selected %(objects_name)s would result in deleting related objects, but your account doesn't "
        "have permission to delete the following types of objects:"
    ),
    gettext_noop(
        "Deleting the selected %(objects_name)s would require deleting the following protected related objects:"
    ),
    gettext_noop(
        "Are you sure you want to delete the selected %(objects_name)s? All of the following objects and their related "
        "items will be deleted:"
    ),
)


def changed(count: int, name: str) -> str:
    """Return Django's message after an edit of rows in their list."""
    return ngettext(
        "%(count)s %(name)s was changed successfully.", "%(count)s %(name)s were changed successfully.", count
    ) % {"count": count, "name": name}
