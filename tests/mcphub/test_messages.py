"""The hub speaks Russian whole: every word of its own is translated, and what is compiled is what is written."""

from __future__ import annotations

import ast
import gc
import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import django
import pytest
import unfold
from django.contrib.auth.models import User
from django.test import Client
from django.utils.translation.template import templatize

from tests import factories as make

HOME = Path(__file__).parent.parent.parent
CATALOGUE = HOME / "mcphub" / "locale" / "ru" / "LC_MESSAGES"
PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")
SINGULAR = {"_", "_t", "gettext", "gettext_lazy", "gettext_noop"}
PLURAL = {"ngettext", "ngettext_lazy"}
MEND = "Run `mcphub makemessages`, translate what is empty in mcphub/locale/ru/LC_MESSAGES/django.po, run it again."

Entry = tuple[str, str]
"""The message, and its plural where it has one."""


def entries(text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Return flags and parts (msgid, msgid_plural, msgstr, msgstr[0] …) of each entry of a .po file."""
    for block in re.split(r"\n\s*\n", text):
        flags: list[str] = []
        parts: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#,"):
                flags += [flag.strip() for flag in line[2:].split(",")]
            elif not line.startswith("#") and line.strip():
                named = re.match(r"(msg[\w\[\]]+) ", line)
                if named:
                    name = named[1]
                    parts[name] = ""
                parts[name] += ast.literal_eval(line[len(named[0]) if named else 0 :])
        if parts:
            yield flags, parts


def written() -> dict[Entry, list[str]]:
    """Return the translations of the .po file; refuse fuzzy ones."""
    found = {}
    for flags, parts in entries((CATALOGUE / "django.po").read_text()):
        if parts["msgid"]:
            assert "fuzzy" not in flags, parts["msgid"]
            found[parts["msgid"], parts.get("msgid_plural", "")] = [
                words for name, words in parts.items() if name.startswith("msgstr")
            ]
    return found


def said_in(code: str) -> Iterator[Entry]:
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        words = [value.value for value in node.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        if name in SINGULAR and words:
            yield words[0], ""
        elif name in PLURAL and len(words) == 2:
            yield words[0], words[1]


CALL = re.compile(r"""\bn?gettext\((?:[^()'"]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*\)""")


def said() -> set[Entry]:
    """Return every message of the code and the templates."""
    # CPython 3.11 fails to parse when the collector, in the middle of it, runs a finaliser that parses as well.
    gc.collect()
    found: set[Entry] = set()
    for package in PACKAGES:
        for source in (HOME / package).rglob("*.py"):
            if "migrations" not in source.parts:
                found |= set(said_in(source.read_text()))
    for page in [*(HOME / "templates").rglob("*.html"), *HOME.glob("mcphub/features/*/templates/**/*.html")]:
        # `templatize` leaves the calls, one after the other, in a text that is no Python as a whole.
        code = templatize(page.read_text(), origin=str(page))
        for call in CALL.findall(code):
            found |= set(said_in(call))
    return {entry for entry in found if entry[0]}


@pytest.mark.slow
def test_every_message_has_its_russian() -> None:
    there = written()
    missing = sorted(message for message, plural in said() if (message, plural) not in there)
    assert missing == [], MEND
    empty = sorted(message for (message, _), translations in there.items() if not all(translations))
    assert empty == [], MEND


@pytest.mark.slow
def test_the_catalogue_holds_nothing_else() -> None:
    assert sorted(message for message, _ in written().keys() - said()) == [], MEND


@pytest.mark.parametrize(("module", "package"), [("theme_words", unfold), ("django_words", django)])
def test_the_words_of_the_theme_are_its_own(module: str, package: ModuleType) -> None:
    home = Path(package.__path__[0])
    admin = home / "contrib" / "admin" if package is django else home
    theme = "".join(file.read_text() for kind in ("*.py", "*.html") for file in admin.rglob(kind))
    lost = []
    for message, _ in said_in((HOME / "mcphub" / "console" / f"{module}.py").read_text()):
        pieces = [piece for piece in re.split(r"%\(\w+\)[sd]|\{\w+\}", message) if piece.strip()]
        # Long sentences of Python code stand in several literals.
        lost += [message] if not all(piece[:40] in theme for piece in pieces) else []
    assert lost == []


def test_placeholders_survive() -> None:
    holes = re.compile(r"%\(\w+\)[sdr]|\{[\w:]*\}|%[sd]")
    for (message, plural), translations in written().items():
        for words in translations:
            assert set(holes.findall(words)) == set(holes.findall(plural or message)), message


def test_what_is_compiled_is_what_is_written() -> None:
    with (CATALOGUE / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    expected: dict[object, str] = {}
    for (message, plural), translations in written().items():
        if plural:
            expected |= {(message, form): words for form, words in enumerate(translations)}
        else:
            expected[message] = translations[0]
    held = {key: words for key, words in compiled._catalog.items() if key}  # type: ignore[attr-defined]
    assert held == expected, MEND


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/admin/", ["Обзор", "Предложения ждут одобрения", "Сопоставления ошибок"]),
        ("/admin/tools_catalog/mcptooldefinition/", ["Инструменты", "Отключить выбранное"]),
        ("/admin/invocations/mcptoolinvocation/", ["Вызовы", "Применить фильтры"]),
        ("/admin/sessions_app/apikey/add/", ["Области доступа", "Читать журнал аудита"]),
    ],
)
def test_the_admin_speaks_russian(client: Client, address: str, words: list[str]) -> None:
    client.force_login(User.objects.create_superuser("operator"))
    page = client.get(address, headers={"accept-language": "ru"}).content.decode()
    assert [word for word in words if word not in page] == []


@pytest.mark.django_db
def test_names_stand_in_russian_sentences_without_a_case(client: Client) -> None:
    client.force_login(User.objects.create_superuser("operator"))
    toolset = make.McpToolsetFactory()
    russian = {"accept-language": "ru"}
    page = f"/admin/tools_catalog/mcptoolset/{toolset.pk}"
    kind = "набор инструментов"
    for address, words in (
        ("/admin/tools_catalog/mcptoolset/add/", f"Добавление: {kind}"),
        (f"{page}/change/", f"Удалить: {kind}"),
        (f"{page}/delete/", f"Удалить «{toolset}» ({kind})?"),
        ("/admin/tools_catalog/mcptoolset/", "наборы инструментов: 1"),
    ):
        assert words in client.get(address, headers=russian).content.decode(), address
    gone = client.post(f"{page}/delete/", {"post": "yes"}, headers=russian, follow=True).content.decode()
    assert f"Удалено: {kind}" in gone


@pytest.mark.django_db
def test_the_admin_speaks_english_by_default(client: Client) -> None:
    client.force_login(User.objects.create_superuser("operator"))
    assert "Offers waiting for approval" in client.get("/admin/").content.decode()


ONE_WORD_FOR_ONE_THING = {
    "хеш": "дайджест|хэш",
    "вебхук": "веб-перехватчик|веб-хук",
    "правило вызовов": r"правил\w* о вызовах",
    "запись об удалении": "надгроби",
    "авторизованное приложение": r"допущенн\w+ (клиент|приложени)",
    "шапка of a SKILL.md, название of a row": r"[Ии]мя, заголовок",
}


@pytest.mark.parametrize(("word", "others"), ONE_WORD_FOR_ONE_THING.items())
def test_one_thing_has_one_word_in_russian(word, others):
    found = [each for words in written().values() for each in words if re.search(others, each, re.IGNORECASE)]
    assert found == [], word


def test_no_message_writes_a_decimal_point_of_its_own():
    """Numbers go through `number_format`: Russian has a comma there."""
    assert [words for words, _plural in written() if re.search(r"%\(\w+\)\.[1-9][efg]", words)] == []
