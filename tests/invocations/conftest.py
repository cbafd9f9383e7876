from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patient_ledger(settings):
    """A loaded machine may take seconds for a commit; who tests the bound sets it."""
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 20
