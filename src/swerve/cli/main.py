"""The command line: the commands in the order of `swerve --help`, and how a command ends.

Commands import what they need when they run, so that help and mistakes in typing need not wait for JAX.
"""

import sys
from typing import Annotated, NoReturn

import typer

import swerve
from swerve.cli import fitted_runs, fitting, scoring
from swerve.cli.console import console, errors
from swerve.errors import InputError

STOPPED = 130
COMMANDS = {
    "demo": fitting.demo,
    "fit": fitting.fit,
    "choose-regimes": fitting.choose_regimes,
    "segment": fitted_runs.segment,
    "name": fitted_runs.name,
    "forecast": fitted_runs.forecast,
    "evaluate": scoring.evaluate,
    "report": fitted_runs.report,
}

app = typer.Typer(
    name="swerve",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)
for name, command in COMMANDS.items():
    app.command(name)(command)


def _version(wanted: bool) -> bool:
    if wanted:
        console.print(f"swerve {swerve.__version__}", highlight=False)
        raise typer.Exit
    return wanted


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Swerve finds the regimes in time series: it learns how each regime moves and labels every frame.

    See it work with `swerve demo`. With recordings of your own: `swerve fit walk.csv --out runs/walk`, then
    `swerve segment runs/walk walk.csv --out labels`. Each command explains itself, as in `swerve fit --help`.
    """


def main() -> None:
    """Entry point: a user's mistake becomes one sentence and exit code 2."""
    ending(app)


def ending(program: typer.Typer) -> None:
    """Runs a program so that a user's mistake becomes one sentence and exit code 2."""
    try:
        program(standalone_mode=True)
    except InputError as error:
        _refuse(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _refuse(f"{where}{error.strerror or error}.")
    except (MemoryError, RuntimeError) as error:  # JAX has a RuntimeError of its own
        if not _wants_memory(error):
            raise
        _refuse("There is not enough memory for this: fewer --regimes, --set training.batch_size or training.window.")
    except SystemExit as end:  # what Typer makes of Ctrl-C
        if end.code == STOPPED:
            errors.print("Stopped. What was kept goes on with --resume.")
        raise


def _refuse(sentence: str) -> NoReturn:
    errors.print(f"Error: {sentence}", style="bold red", highlight=False, soft_wrap=True, markup=False)
    sys.exit(2)


def _wants_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "memory" in str(error).lower()
