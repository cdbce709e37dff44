"""The command line: the names of the commands in the order of `swerve --help`, and how a command ends."""

import sys

import typer

from swerve import display
from swerve.commands import experiments, fitted_runs, fitting, scoring
from swerve.errors import InputError

STOPPED = 130
COMMANDS = {
    "demo": experiments.demo_command,
    "fit": fitting.fit,
    "choose-regimes": fitting.choose_regimes_command,
    "segment": fitted_runs.segment,
    "name": fitted_runs.name,
    "forecast": fitted_runs.forecast,
    "evaluate": scoring.evaluate,
    "report": fitted_runs.report,
    "generate": experiments.generate,
    "reproduce": experiments.reproduce_command,
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
    try:
        app(standalone_mode=True)
    except InputError as error:
        display.errors.print(f"Error: {error}", style="bold red", highlight=False, soft_wrap=True, markup=False)
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        display.errors.print(
            f"Error: {where}{error.strerror or error}.", style="bold red", soft_wrap=True, markup=False
        )
        sys.exit(2)
    except SystemExit as end:  # what Typer makes of Ctrl-C
        if end.code == STOPPED:
            display.errors.print("Stopped. What was kept goes on with --resume.")
        raise
