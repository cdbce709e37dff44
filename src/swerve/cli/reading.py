"""What commands that read recordings share: the argument for them, and the options for how they are read."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from swerve.data.reading import Choices, Reading, flag_of

PANEL = "How recordings are read"
Data = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV, Parquet, HDF5, NPZ, NPY, BVH or AMC files, or folders of them or of pictures. A row is a frame,"
        " a column is a channel; one recording per file unless there is a --sequence-column."
    ),
]


def takes_reading(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the named options, or all, to a command. It gets those that were used as its argument `given`.

    Every option is empty by default, so that what a run remembers can be told from what was said just now.
    """

    def adding(command: Callable[..., None]) -> Callable[..., None]:
        options = [one for one in _options() if not names or one.name in names]

        @functools.wraps(command)
        def wrapped(**arguments: Any) -> None:
            said = {one.name: arguments.pop(one.name) for one in options}
            given = {name: value for name, value in said.items() if value is not None and value != []}
            command(**arguments, given=given)

        own = [one for name, one in inspect.signature(command, eval_str=True).parameters.items() if name != "given"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        signature = [one.replace(kind=keyword) for one in own] + options
        wrapped.__signature__ = inspect.Signature(signature)  # pyright: ignore[reportAttributeAccessIssue]
        wrapped.__annotations__ = {one.name: one.annotation for one in signature}
        return wrapped

    return adding


def _options() -> list[inspect.Parameter]:
    """One parameter for each choice of a `Reading`."""
    hints, defaults = get_type_hints(Choices), Reading()
    options = []
    for one in fields(Reading):
        if "help" not in one.metadata:
            continue
        flag = flag_of(one.name)
        default = getattr(defaults, one.name)
        several, yes_or_no = isinstance(default, tuple), isinstance(default, bool)
        usual = "" if default is None or several or yes_or_no else f" By default {default}."
        help = one.metadata["help"].removesuffix(".") + f".{usual}"
        names = (f"{flag}/--no-{flag[2:]}",) if yes_or_no else (flag,)
        kind = list[str] | None if several else hints[one.name] | None
        annotation = Annotated[kind, typer.Option(*names, help=help, show_default=False, rich_help_panel=PANEL)]
        options.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return options
