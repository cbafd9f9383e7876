"""Counts words that a reader must translate: headless clauses, and software that speaks.

    python -m benchmarks.words [--check] [--most N]

Counted per 1 000 words, in the docstrings of the four packages and in the English messages of the catalogue:

- *headless*: what, who, whom, whose. A sentence with one of them usually hides its noun: write *the callers*, not
  *who calls*.
- *speech*: forms of tell, say and hear. Software returns, sends, reports and rejects.

`--check` exits with 1 if a rate is above its bound, or a file's headless rate above `MOST_OF_A_FILE`; `--most` lists
the worst files. Placeholders of messages do not count.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.house import sources

HEADLESS = re.compile(r"\b(what|who|whom|whose)\b", re.IGNORECASE)
SPEECH = re.compile(r"\b(tell|tells|told|telling|say|says|said|saying|hear|hears|heard|hearing)\b", re.IGNORECASE)
MOST_HEADLESS = 3.0
MOST_SPEECH = 0.5
MOST_OF_A_FILE = 8.0
_SHORT_WORDS = 400
"""A file with fewer words is judged as if it had so many: one hit in fifty words is no habit."""
CATALOGUE = ROOT / "mcphub/locale/ru/LC_MESSAGES/django.po"


@dataclass(frozen=True, slots=True)
class Count:
    name: str
    words: int
    headless: int
    speech: int

    @property
    def headless_rate(self) -> float:
        return 1000 * self.headless / max(1, self.words)

    @property
    def speech_rate(self) -> float:
        return 1000 * self.speech / max(1, self.words)

    @property
    def is_too_high(self) -> bool:
        return 1000 * self.headless / max(_SHORT_WORDS, self.words) > MOST_OF_A_FILE


def count(name: str, texts: list[str]) -> Count:
    text = "\n".join(texts)
    return Count(name, len(text.split()), len(HEADLESS.findall(text)), len(SPEECH.findall(text)))


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of docstrings, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def messages(catalogue: Path) -> list[str]:
    """Return the English messages of a catalogue."""
    found = re.findall(r'^msgid(?:_plural)? ((?:".*"\n)+)', catalogue.read_text(), re.MULTILINE)
    texts = ("".join(ast.literal_eval(line) for line in entry.splitlines()) for entry in found)
    return [re.sub(r"%\(\w+\)\w", "", text) for text in texts]


def total(name: str, counts: list[Count]) -> Count:
    return Count(name, *(sum(getattr(each, member) for each in counts) for member in ("words", "headless", "speech")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--most", type=int, default=10)
    options = parser.parse_args()
    files = [count(source.name, list(docstrings(source.tree))) for source in sources()]
    sums = [total("docstrings", files), count("messages", messages(CATALOGUE))]
    for each in sums:
        rates = f"headless {each.headless_rate:5.2f}  speech {each.speech_rate:5.2f}"
        print(f"{each.name:12} {each.words:7} words  {rates}")
    worst = sorted(files, key=lambda each: each.headless, reverse=True)[: options.most]
    for each in worst:
        print(f"  {each.headless:3} headless {each.headless_rate:6.1f}  {each.name}")
    high = [each.name for each in files if each.is_too_high]
    high += [each.name for each in sums if each.headless_rate > MOST_HEADLESS or each.speech_rate > MOST_SPEECH]
    if options.check and high:
        print(f"Above the bounds: {', '.join(high)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
