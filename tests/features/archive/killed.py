"""Archives a hub's months, a file for each block, and dies of SIGKILL after the first file, or after a sent object.

python -m tests.features.archive.killed PLACE [OBJECTS]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def main(place: str, objects: str = "") -> None:
    from mcphub.commands.stop import start_django

    start_django()
    from invocations.chain import service
    from mcphub.commands.audit_log import open_log
    from mcphub.features.archive.writing import Archiver

    def dies_at(most: int) -> Callable[[int], None]:
        passed: list[int] = []

        def pass_by(size: int) -> None:
            passed.append(size)
            if len(passed) == most:
                os.kill(os.getpid(), signal.SIGKILL)

        return pass_by

    fatal = {"sent": dies_at(int(objects))} if objects else {"written": dies_at(2)}

    with open_log() as (log, _database):
        keys = service.keys()
        list(Archiver(log, keys, keys.signer(), place, **fatal, most_rows=1).run())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    main(*sys.argv[1:])
