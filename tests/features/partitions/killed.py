"""Converts a hub's tables to partitions, and dies of SIGKILL before the NUMBERth statement with WORDS.

python -m tests.features.partitions.killed WORDS NUMBER
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any


def main(words: str, number: int) -> None:
    from mcphub.commands.stop import start_django

    start_django()
    from invocations.chain.log import Log
    from mcphub.features.partitions import converting
    from sessions_app.kit.database import Dedicated

    class MortalLog(Log):
        """Dies before one of its statements."""

        passed = 0

        def run(self, statement: str, *values: object) -> Any:
            self.passed += words in statement
            if words in statement and self.passed == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().run(statement, *values)

    database = Dedicated()
    converting.convert(MortalLog(lambda: database.raw, False), datetime.now(UTC))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    main(sys.argv[1], int(sys.argv[2]))
