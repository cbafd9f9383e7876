"""Words of the admin's theme, which ships no Russian: named here so that the hub's own catalogue holds them.

Nothing imports this module; `makemessages` reads it. Only strings on the hub's pages that Django does not translate
already.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop, ngettext

WORDS = (
    gettext_noop("Select record"),
    gettext_noop("Select action"),
    gettext_noop("Select action to run"),
    gettext_noop("Select value"),
    gettext_noop("Choose file to upload"),
    gettext_noop("Select all rows"),
    gettext_noop("Value"),
    gettext_noop("From"),
    gettext_noop("To"),
    gettext_noop("Date"),
    gettext_noop("Date from"),
    gettext_noop("Date to"),
    gettext_noop("Changes"),
    gettext_noop("Choose a date from the list below to revert to a previous version of this object"),
    gettext_noop("Press the 'Change History' button below to edit the history."),
    gettext_noop(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you can change the "
        'password using <a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    gettext_noop("After you've created a user, you’ll be able to edit more user options."),
    gettext_noop("Run"),
    gettext_noop("Expand row"),
    gettext_noop("More actions"),
    gettext_noop("Welcome back to"),
    gettext_noop("Forgotten your password or username?"),
    gettext_noop("Toggle password visibility"),
    gettext_noop("You have been successfully logged out from the administration"),
    gettext_noop("Type to search"),
    gettext_noop("Search apps and models..."),
    gettext_noop("Recent searches"),
    gettext_noop("No recent searches"),
    gettext_noop("No results matching your query"),
    gettext_noop("Loading more results..."),
    gettext_noop("No data"),
    gettext_noop("Apply Filters"),
    gettext_noop("All applications"),
    gettext_noop("True"),
    gettext_noop("False"),
    gettext_noop("Cancel"),
    gettext_noop("Go back"),
    gettext_noop("Previous"),
    gettext_noop("Next"),
    gettext_noop("General"),
    gettext_noop("Light"),
    gettext_noop("Dark"),
    gettext_noop("System"),
    gettext_noop("Return to site"),
)


def results(counter: int, time: str) -> str:
    """Return the text of the theme's search, with the exact whitespace of its page."""
    return ngettext(
        "\n                Found %(counter)s result in %(time)s seconds\n            ",
        "\n                Found %(counter)s results in %(time)s seconds\n            ",
        counter,
    ) % {"counter": counter, "time": time}
