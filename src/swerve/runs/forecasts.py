"""Forecasts as files: a table and a picture for each recording."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from swerve.data.atomic import whole_folder
from swerve.data.columns import select_columns
from swerve.data.windows import cut
from swerve.report import figures
from swerve.runs.run import LONGEST_PAST, Run
from swerve.types import Forecast, Recording

SHOWN_PAST = 100  # frames, or three times as many as the forecast has


def write_forecasts(
    out: Path, run: Run, series: Sequence[Recording], forecasts: Sequence[Forecast], file_names: Sequence[str]
) -> None:
    """NAME.csv and NAME.png of every recording; all of it or nothing."""
    recent = [cut(one, max(0, len(one) - LONGEST_PAST), len(one)) for one in select_columns(series, run.columns)]
    with whole_folder(out) as temporary:
        for whole, past, found, name in zip(series, recent, forecasts, file_names, strict=True):
            (temporary / f"{name}.csv").write_bytes(table(found, len(whole)))
            if run.image is None:
                (temporary / f"{name}.png").write_bytes(_picture(run, past, found, len(whole)))


def table(forecast: Forecast, frames: int) -> bytes:
    """A row per future frame, the first of which has the number `frames`: p0, p1, ..., and each column's quantiles."""
    regimes = [f"p{k}" for k in range(forecast.probabilities.shape[1])]
    levels = [f"{100 * level:g}%" for level in forecast.levels]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["frame", *regimes, *(f"{column} {level}" for column in forecast.columns for level in levels)])
    for step, (probable, quantiles) in enumerate(zip(forecast.probabilities, forecast.quantiles, strict=True)):
        numbers = [*(f"{p:.6f}" for p in probable), *(f"{value:.6g}" for value in quantiles.T.ravel())]
        writer.writerow([frames + step, *numbers])
    return text.getvalue().encode()


def _picture(run: Run, past: Recording, forecast: Forecast, frames: int) -> bytes:
    (found,) = run.infer([past], expects=False)
    shown = min(len(past), max(SHOWN_PAST, 3 * len(forecast.probabilities)))
    figure = figures.forecast(
        past.x[-shown:],
        found.labels[-shown:],
        found.probabilities[-shown:],
        forecast.probabilities,
        forecast.quantiles,
        forecast.levels,
        first_frame=frames - shown,
        columns=forecast.columns,
        title=f"{forecast.name}: {frames} frames, and {len(forecast.probabilities)} to come",
    )
    return figures.png_bytes(figure)
