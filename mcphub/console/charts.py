"""Charts as plain SVG: no script draws them, each bar is a link, and each has a table with the same figures."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, HEIGHT = 480, 150
LABEL = len("12-31")
"""Characters for which there is room below a column."""
_HALF_LABEL = 14
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 4, 8, 20


@dataclass(frozen=True)
class Bar:
    """One column: `parts` are (kind, value, link) from the ground up; `words` say it, `link` leads to all of it."""

    label: str
    words: str
    parts: tuple[tuple[str, float, str], ...]
    link: str = ""


@dataclass(frozen=True)
class ChartLine:
    """One series over the same labels; None leaves a gap."""

    kind: str
    title: str
    values: tuple[float | None, ...]


def columns(bars: list[Bar]) -> dict[str, object]:
    """Give the geometry of stacked columns for the template `admin/hub/chart.html`."""
    most, ticks = scale(max((sum(value for _, value, _ in bar.parts) for bar in bars), default=0))
    width = (WIDTH - _LEFT - _RIGHT) / max(1, len(bars))
    drawn = []
    for number, bar in enumerate(bars):
        ground, parts = float(HEIGHT - _BOTTOM), []
        for kind, value, link in bar.parts:
            height = value / most * _room()
            if value:
                height = max(height, 1.5)  # one call among thousands is still seen
                ground -= height
                parts.append({"kind": kind, "y": _round(ground), "height": _round(height), "link": link})
        left = _LEFT + number * width
        drawn.append(
            {
                "x": _round(left + width * 0.1),
                "width": _round(max(width * 0.8, 1)),
                "parts": parts,
                "words": bar.words,
                "link": bar.link,
                "hit": _round(left),
                "hit_width": _round(width),
            }
        )
    return {"columns": drawn, "ticks": ticks, "labels": _labels([bar.label for bar in bars], width), **_frame()}


def lines(labels: list[str], series: list[ChartLine]) -> dict[str, object]:
    """Give the geometry of lines for the same template."""
    most, ticks = scale(max((value for line in series for value in line.values if value is not None), default=0))
    width = (WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    drawn = []
    for line in series:
        runs: list[list[str]] = [[]]
        for number, value in enumerate(line.values):
            if value is None:
                runs.append([])
            else:
                x, y = _LEFT + (number + 0.5) * width, HEIGHT - _BOTTOM - value / most * _room()
                runs[-1].append(f"{_round(x)},{_round(y)}")
        drawn.append(
            {
                "kind": line.kind,
                "title": line.title,
                "runs": [" ".join(run) for run in runs if len(run) > 1],
                "dots": [run[0].split(",") for run in runs if len(run) == 1],
            }
        )
    return {"lines": drawn, "ticks": ticks, "labels": _labels(labels, width), **_frame()}


def scale(highest: float) -> tuple[float, list[dict[str, object]]]:
    """Give the top of an axis, a round number, and its ticks."""
    step = 1.0
    while step * 4 < highest:
        # 1, 2, 5, 10, 20, 50 …
        step *= 2.5 if f"{step:g}"[0] == "2" else 2
    most = step * max(1, -(-highest // step))
    count = round(most / step)
    ticks = [
        {"y": _round(HEIGHT - _BOTTOM - each / count * _room()), "value": each * step} for each in range(count + 1)
    ]
    return most, ticks


def _labels(words: list[str], width: float) -> list[dict[str, object]]:
    every = max(1, -(-len(words) // 8))
    shown = [at for at in range(0, len(words), every) if at == 0 or words[at] != words[at - every]]
    last = WIDTH - _RIGHT - _HALF_LABEL
    return [{"x": _round(min(_LEFT + (at + 0.5) * width, last)), "word": words[at]} for at in shown]


def _room() -> float:
    return HEIGHT - _TOP - _BOTTOM


def _round(value: float) -> str:
    return f"{value:.1f}"


def _frame() -> dict[str, object]:
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "foot": HEIGHT - 6,
        "axis": _LEFT - 6,
        "top": _TOP,
        "room": _round(_room()),
    }
