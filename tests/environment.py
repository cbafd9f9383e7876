"""Loaded before the settings: tests keep their files in a directory of their own."""

import atexit
import os
import shutil
import tempfile

if "MCPHUB_DATA_DIR" not in os.environ:
    os.environ["MCPHUB_DATA_DIR"] = tempfile.mkdtemp(prefix="mcphub-tests-")
    atexit.register(shutil.rmtree, os.environ["MCPHUB_DATA_DIR"], ignore_errors=True)
