"""Archives a hub's months, a file for each block, and dies of SIGKILL after the first file.

python -m tests.features.archive.killed FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main(folder: Path) -> None:
    from mcphub.commands.stop import start_django

    start_django()
    from invocations.chain import service
    from mcphub.commands.audit_log import open_log
    from mcphub.features.archive.writing import Archiver

    blocks: list[int] = []

    def written(rows: int) -> None:
        blocks.append(rows)
        if len(blocks) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_log() as (log, _database):
        keys = service.keys()
        list(Archiver(log, keys, keys.signer(), folder, written=written, most_rows=1).run())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    main(Path(sys.argv[1]))
