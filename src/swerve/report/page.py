"""One self-contained HTML file: pictures embedded, style inlined, no script, nothing fetched."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from numbers import Integral
from pathlib import Path

from matplotlib.figure import Figure

from swerve.report.canvas import png_bytes
from swerve.report.scores import Number, Score

Cell = str | Score | None
"""Text as it is, a number, (mean, standard deviation), or nothing."""

# The browser itself refuses scripts and requests, should one ever slip through.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(
    path: str | Path,
    *,
    title: str,
    summary: Sequence[tuple[str, str | Number]] = (),
    warnings: Sequence[str] = (),
    scores: Mapping[str, Mapping[str, Cell]] | None = None,
    figures: Sequence[tuple[str, str | Path | Figure]] = (),
    config_text: str = "",
) -> Path:
    """Write the page and return its path. A reader never sees a half-written one.

    `scores` maps each row's name to its cells by column. A figure is drawn, or the path of a PNG.
    """
    sections = [
        f"<h1>{escape(title)}</h1>",
        _summary(summary),
        _warnings(warnings),
        _scores(scores or {}),
        _figures(figures),
        _config(config_text),
    ]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        unfinished.write_text(_document(title, "\n".join(filter(None, sections))), encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _document(title: str, body: str) -> str:
    style = files("swerve.report").joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _summary(summary: Sequence[tuple[str, str | Number]]) -> str:
    entries = [f"<div><dt>{escape(name)}</dt><dd>{escape(_text(value))}</dd></div>" for name, value in summary]
    return f'<dl class="summary">{"".join(entries)}</dl>' if entries else ""


def _warnings(warnings: Sequence[str]) -> str:
    entries = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<aside class="warnings"><strong>Please note</strong><ul>{entries}</ul></aside>' if entries else ""


def _scores(scores: Mapping[str, Mapping[str, Cell]]) -> str:
    columns = list(dict.fromkeys(column for cells in scores.values() for column in cells))
    if not columns:
        return ""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(_text(cells.get(column)))}</td>" for column in columns)
        + "</tr>"
        for name, cells in scores.items()
    )
    table = f'<thead><tr><th scope="col">Model</th>{head}</tr></thead><tbody>{rows}</tbody>'
    return f'<h2>Scores</h2>\n<div class="scroll"><table>{table}</table></div>'


def _figures(figures: Sequence[tuple[str, str | Path | Figure]]) -> str:
    pictures = [
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{_base64(picture)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, picture in figures
    ]
    return "\n".join(["<h2>Figures</h2>", *pictures]) if pictures else ""


def _config(text: str) -> str:
    if not text:
        return ""
    settings = f"<summary>Every setting</summary><pre>{escape(text)}</pre>"
    return f"<h2>Configuration</h2>\n<details>{settings}</details>"


def _base64(picture: str | Path | Figure) -> str:
    data = png_bytes(picture) if isinstance(picture, Figure) else Path(picture).read_bytes()
    return b64encode(data).decode("ascii")


def _text(value: Cell) -> str:
    match value:
        case None:
            return "—"
        case str():
            return value
        case (mean, spread):
            return f"{mean:.3f} ± {spread:.3f}"
        case Integral():
            return f"{value:,}"
        case _:
            return f"{value:.3f}"
