"""Tokens of completed tasks, by how a searched toolset is offered to a model. What is counted: `benchmarks.offers`.

python -m benchmarks.offering
"""

from __future__ import annotations

import os
import tempfile
from importlib import import_module

import django


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="mcphub-offering-") as folder:
        os.environ.update(MCPHUB_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="mcphub.settings")
        django.setup()
        import_module("benchmarks.offers").show()


if __name__ == "__main__":
    main()
