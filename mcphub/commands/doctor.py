"""`mcphub doctor`: prints problems and their solutions; exit status 0 without problems."""

from __future__ import annotations

import argparse
import os
import traceback

from mcphub.commands.stop import Stop, start_django
from mcphub.process import address


def declare(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""


def run(options: argparse.Namespace) -> int:
    os.environ["MCPHUB_PUBLIC_URL"] = address.public_url()
    try:
        start_django()
    except Stop:
        raise
    except Exception as error:  # an application of the operator's may raise anything while it loads
        _print("applications", [("wrong", _not_loaded(error), "Correct that file, or take it out of MCPHUB_APPS.")])
        print("1 wrong; the rest was not examined")
        return 1
    from mcphub.process.doctor import examine

    wrong = 0
    for subject, findings in examine():
        _print(subject, [(finding.level, finding.what, finding.mend) for finding in findings])
        wrong += sum(finding.level == "wrong" for finding in findings)
    print(f"{wrong} wrong" if wrong else "Nothing is wrong.")
    return 1 if wrong else 0


def _print(subject: str, findings: list[tuple[str, str, str]]) -> None:
    print(f"{'ok  ' if not findings else '    '}  {subject}")
    for level, what, mend in findings:
        print(f"{level.upper():<5}   {what}")
        print(f"          → {mend}")


def _not_loaded(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    where = f"{frames[-1].filename}, line {frames[-1].lineno}"
    return f"An application cannot be loaded: {type(error).__name__}: {error} ({where})."
