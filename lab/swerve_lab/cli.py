"""The laboratory's command line: `swerve-lab generate` and `swerve-lab reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from swerve.cli.console import console
from swerve.cli.main import ending
from swerve.data import tables
from swerve.errors import InputError
from swerve_lab.boards import catalog, published
from swerve_lab.experiments import reproduce

app = typer.Typer(
    name="swerve-lab",
    help="Swerve's laboratory: boards with known regimes, and the experiments behind the tables of results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.command()
def generate(
    board: Annotated[str, typer.Argument(help=f"One of {', '.join(catalog.BOARDS)}.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv or .npz.")],
    sequences: Annotated[int, typer.Option(help="How many.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.")] = 0,
    noise: Annotated[float | None, typer.Option(help="Observation noise; each board has its own default.")] = None,
) -> None:
    """Writes a synthetic board with known regimes (column `s`); definitions in docs/boards.md.

    Example: `swerve-lab generate bouncing-ball --out balls.csv --sequences 50`. Next:
    `swerve fit balls.csv --sequence-column sequence --label-column s --regimes 2 --out runs/balls`.
    """
    source = catalog.find(board)
    if sequences < 1:
        raise InputError(f"--sequences must be at least 1, not {sequences}.")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, not {seed}.")
    if noise is not None and not source.noisy:
        raise InputError(f"The board '{board}' has no noise to set.")
    options = {} if noise is None else {"noise": noise}
    series = source.generate(sequences, seed=seed, **options).series()
    writers = {".csv": tables.write_csv, ".npz": tables.write_npz}
    if out.suffix not in writers:
        raise InputError(f"{out} must end in .csv or .npz.")
    out.parent.mkdir(parents=True, exist_ok=True)
    writers[out.suffix](out, series)
    console.print(f"Wrote {len(series)} recordings of {len(series[0])} frames to {out}.")


@app.command("reproduce")
def reproduce_command(
    name: Annotated[
        str,
        typer.Argument(
            help="table1 (ball and reacher), table2 (Dubins video), fields, dubins-positions, annealing, correlation,"
            " ablation, learning-story, salsa, mocap6, bees, robustness, or any other folder under experiments/."
        ),
    ],
    show: Annotated[bool, typer.Option("--show", help="Print the stored results without running anything.")] = False,
    row: Annotated[str | None, typer.Option(help="Only the rows whose name contains this.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes on a CPU, under runs/quick: shows that it works, not the scores.")
    ] = False,
    experiments: Annotated[Path, typer.Option(help="The folder of experiments.")] = Path("experiments"),
    data: Annotated[Path, typer.Option(help="The folder of published recordings.")] = published.DATA,
) -> None:
    """Runs the rows of an experiment that have no result yet and prints its tables beside the paper's numbers.

    Example: `swerve-lab reproduce table1 --show` prints what is stored, `swerve-lab reproduce table1 --quick` tries it
    all in minutes. A result is a JSON file with scores, config, seeds, versions and commit. Ctrl-C saves; the same
    command goes on where it was. How experiments are stored: docs/experiments.md.
    """
    reproduce.run(name, experiments, show=show, row=row, in_minutes=quick, data=data)


def main() -> None:
    """Entry point: a user's mistake becomes one sentence and exit code 2."""
    ending(app)
