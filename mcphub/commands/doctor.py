"""`mcphub doctor`: prints what is wrong and how to mend it; exit status 0 when nothing is."""

from __future__ import annotations

import argparse

from mcphub import address
from mcphub.commands.stop import start_django


def declare(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""


def run(options: argparse.Namespace) -> int:
    import os

    os.environ["MCPHUB_PUBLIC_URL"] = address.public_url()
    start_django()
    from mcphub.doctor import examine

    wrong = 0
    for subject, findings in examine():
        print(f"{'ok  ' if not findings else '    '}  {subject}")
        for finding in findings:
            wrong += finding.level == "wrong"
            print(f"{finding.level.upper():<5}   {finding.what}")
            print(f"          → {finding.mend}")
    print(f"{wrong} wrong" if wrong else "Nothing is wrong.")
    return 1 if wrong else 0
