"""One self-contained HTML file: data, pictures, style and script inside; nothing is fetched, no other script runs."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from numbers import Integral
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from swerve.data.atomic import whole_file
from swerve.report.canvas import png_bytes
from swerve.report.cards import regime_names, regime_section
from swerve.report.drawings import curves
from swerve.report.markup import Markup, joined, tag
from swerve.report.packing import Shown, packed
from swerve.report.palette import hex_colors
from swerve.report.pictures import png_tag
from swerve.report.scores import Number, Score
from swerve.report.training import History, shown_range

Cell = str | Score | None
"""Text as it is, a number, (mean, standard deviation), or nothing."""
LONG_FACT = 26  # characters, beyond which a fact takes two places
SCRIPTS = ("state.js", "timeline.js", "pointing.js", "stage.js", "page.js")


def write_page(
    path: str | Path,
    *,
    title: str,
    summary: Sequence[tuple[str, str | Number]] = (),
    warnings: Sequence[tuple[str, str]] = (),
    recordings: Sequence[Shown] = (),
    names: Sequence[str] = (),
    history: History | None = None,
    scores: Mapping[str, Mapping[str, Cell]] | None = None,
    figures: Sequence[tuple[str, str | Path | Figure]] = (),
    repeat: Sequence[tuple[str, str]] = (),
    config_text: str = "",
) -> Path:
    """Write the page and return its path. A reader never sees a half-written one.

    A warning may be a problem and its remedy. `names` are what people call regimes. `scores` maps each row's name to
    its cells by column. A figure is drawn, or the path of a PNG; where there are recordings, figures are for browsers
    without JavaScript. `repeat` holds what can be copied to fit the same again, each with a heading.
    """
    regimes = recordings[0].probabilities.shape[1] if recordings else 0
    called = regime_names(regimes, names)
    sections = [
        tag("h1", title),
        _warnings(warnings),
        _summary(summary),
        _timeline(recordings),
        _section("Regimes", regime_section(recordings, called)) if recordings else Markup(""),
        _training(history),
        _scores(scores or {}),
        _figures(figures, hidden=bool(recordings)),
        _repeat(repeat, config_text),
    ]
    data = {"regimes": called, **packed(recordings)} if recordings else None
    text = _document(title, Markup("\n".join(filter(None, sections))), data, regimes)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _document(title: str, body: Markup, data: dict | None, regimes: int) -> str:
    style = _colors(regimes) + _asset("style.css")
    script = "(() => {\n" + "".join(_asset(name) for name in SCRIPTS) + "})();\n" if data else ""
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    # The browser itself refuses requests, and any script but this one, should one ever slip through.
    allowed = f"; script-src 'sha256-{digest}'" if data else ""
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'{allowed}"
    scripts = f'<script type="application/json" id="data">{_json(data)}</script>\n<script>{script}</script>\n'
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
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
{scripts if data else ""}</body>
</html>
"""


def _asset(name: str) -> str:
    return files("swerve.report").joinpath(name).read_text(encoding="utf-8")


def _json(data: dict | None) -> str:
    """JSON in which nothing can end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _colors(regimes: int) -> str:
    """The regimes' colours as variables, for the light scheme and for the dark one."""
    light, dark = (
        " ".join(f"--r{k}: {color};" for k, color in enumerate(hex_colors(regimes, dark=dark)))
        for dark in (False, True)
    )
    if not regimes:
        return ""
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def _section(heading: str, *inside: Markup) -> Markup:
    return tag("section", tag("h2", heading), *inside)


def _summary(summary: Sequence[tuple[str, str | Number]]) -> Markup:
    facts = [(name, _text(value)) for name, value in summary]
    entries = [
        tag("div", tag("dt", name), tag("dd", text), class_="long" if len(text) > LONG_FACT else None)
        for name, text in facts
    ]
    return tag("dl", *entries, class_="summary") if entries else Markup("")


def _warnings(warnings: Sequence[tuple[str, str]]) -> Markup:
    entries = [tag("li", tag("b", problem), " ", remedy) for problem, remedy in warnings]
    return tag("aside", tag("strong", "Please note"), tag("ul", *entries), class_="warnings") if entries else Markup("")


def _timeline(recordings: Sequence[Shown]) -> Markup:
    """Empty places that the script fills; a browser without scripts shows the figures instead."""
    if not recordings:
        return Markup("")
    return joined(Markup(_asset("timeline.html")))


def _training(history: History | None) -> Markup:
    if history is None or not len(history["step"]):
        return Markup("")
    step, chosen = history["step"], history["chosen"]
    bound = np.where(np.isfinite(history["bound"]), history["bound"], np.nan)
    used = np.where(np.isfinite(bound), history["regimes_in_use"], np.nan)
    window = shown_range(bound)
    panels = [
        curves(step, bound, chosen, "held-out bound, nats per frame", window=window if window[0] < window[1] else None),
        curves(step, used, chosen, "regimes in use"),
    ]
    scored = history["frame_f1"]
    if scored is not None and len(scored) == len(step):
        panels.append(curves(step, 100 * scored[None], 0, "frame F1 of the best restart", unit=" %"))
    shown = [tag("div", panel, class_="card") for panel in panels if panel]
    note = "Every line is a restart; the strong one was chosen. One that stops was given up."
    return _section("Training", tag("p", note, class_="quiet"), tag("div", *shown, class_="curves"))


def _scores(scores: Mapping[str, Mapping[str, Cell]]) -> Markup:
    columns = list(dict.fromkeys(column for cells in scores.values() for column in cells))
    if not columns:
        return Markup("")
    head = tag("tr", *(tag("th", column, scope="col") for column in ("Model", *columns)))
    rows = [
        tag("tr", tag("th", name, scope="row"), *(tag("td", _text(cells.get(column))) for column in columns))
        for name, cells in scores.items()
    ]
    return _section("Scores", tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll"))


def _figures(figures: Sequence[tuple[str, str | Path | Figure]], *, hidden: bool) -> Markup:
    pictures = [
        tag("figure", png_tag(_png(picture), caption), tag("figcaption", caption)) for caption, picture in figures
    ]
    if not pictures:
        return Markup("")
    section = _section("Figures", *pictures)
    return tag("noscript", section) if hidden else section


def _repeat(repeat: Sequence[tuple[str, str]], config_text: str) -> Markup:
    blocks = [
        tag("div", tag("h3", heading), tag("pre", text, tabindex="0"),
            tag("button", "Copy", type="button", class_="copy scripted"), class_="card code")
        for heading, text in repeat
    ]  # fmt: skip
    if config_text:
        blocks.append(tag("details", tag("summary", "Every setting"), tag("pre", config_text, tabindex="0")))
    return _section("Fit the same again", *blocks) if blocks else Markup("")


def _png(picture: str | Path | Figure) -> bytes:
    return png_bytes(picture) if isinstance(picture, Figure) else Path(picture).read_bytes()


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
