from __future__ import annotations

import os

from django.apps import AppConfig


class TrustingConfig(AppConfig):
    name = "tests.features.events.trusting"
    label = "trusting_receivers"

    def ready(self) -> None:
        from tools_catalog.egress import guard

        guard.tls_context().load_verify_locations(os.environ["RECEIVER_CERTIFICATE"])
