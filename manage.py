#!/usr/bin/env python
"""Django's own command line; `mcphub` is the product's."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
