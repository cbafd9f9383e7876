"""`mcphub startproject`: a small Django project with the hub in it."""

from __future__ import annotations

import argparse
from pathlib import Path

from mcphub.commands.stop import Stop
from mcphub.embedding import starting


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the project and its package, such as shop")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, help="where it is written (default: NAME)")


def run(options: argparse.Namespace) -> int:
    folder = options.folder or Path(options.name)
    try:
        written = starting.write_project(options.name, folder)
    except starting.NameRefused as error:
        raise Stop(f"mcphub startproject: {error}", status=2) from None
    except OSError as error:
        raise Stop(f"mcphub startproject: {error}") from None
    print(f"{len(written)} files are in {folder}. Go on there:")
    print(
        "  python manage.py migrate\n"
        "  python manage.py test\n"
        "  python manage.py createsuperuser\n"
        "  python manage.py mcphub token create laptop --owner NAME\n"
        f"  uvicorn {options.name}.asgi:application"
    )
    return 0
