"""The command line: the names of the commands in the order of `swerve --help`, and how a command ends."""

import sys
from typing import NoReturn

import typer
from jax.errors import JaxRuntimeError

from swerve.cli import demo, display, fitted_runs, fitting, scoring
from swerve.errors import InputError

STOPPED = 130
COMMANDS = {
    "demo": demo.demo_command,
    "fit": fitting.fit,
    "choose-regimes": fitting.choose_regimes_command,
    "segment": fitted_runs.segment,
    "name": fitted_runs.name,
    "forecast": fitted_runs.forecast,
    "evaluate": scoring.evaluate,
    "report": fitted_runs.report,
}

app = typer.Typer(
    name="swerve",
    help="Swerve finds the regimes in time series: it learns how each regime moves and labels every frame.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)
for name, command in COMMANDS.items():
    app.command(name)(command)


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
    except (MemoryError, JaxRuntimeError) as error:
        if not _wants_memory(error):
            raise
        _refuse("There is not enough memory for this: fewer --regimes, --set training.batch_size or training.window.")
    except SystemExit as end:  # what Typer makes of Ctrl-C
        if end.code == STOPPED:
            display.errors.print("Stopped. What was kept goes on with --resume.")
        raise


def _refuse(sentence: str) -> NoReturn:
    display.errors.print(f"Error: {sentence}", style="bold red", highlight=False, soft_wrap=True, markup=False)
    sys.exit(2)


def _wants_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "memory" in str(error).lower()
