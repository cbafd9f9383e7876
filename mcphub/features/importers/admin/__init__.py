"""The pages of importers: those of connections and services, with the ways to import."""

from mcphub.features.importers.admin import pages  # noqa: F401 - registers the pages
