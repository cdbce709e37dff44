"""Elements of HTML and SVG as text. Words are escaped here and nowhere else, so that none can be forgotten."""

from html import escape


class Markup(str):
    """Text that is already markup."""


EMPTY = {"img", "input", "meta", "link", "rect", "line", "circle", "path"}


def tag(name: str, *inside: "str | Markup", **attributes: str | float | int | None) -> Markup:
    """`<name ...>inside</name>`; `class_` is class, `stroke_width` is stroke-width, None and False are left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in EMPTY and not inside:
        return Markup(f"<{name}{written}{'/' if name in ('rect', 'line', 'circle', 'path') else ''}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*parts: "str | Markup") -> Markup:
    """Parts one after the other; whatever is no markup is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def _attribute(key: str, value: str | float | int | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'
