"""A training run that is killed without warning, again and again, ends at the same bits as one that was not.

Run as a program, this file is that training run; the argument is the folder where it keeps its files.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_step import (
    BATCH,
    STEPS,
    held_out,
    quick_compiles,  # noqa: F401
    toy_data,
    toy_restart,
    toy_state,
)

from swerve.data.trees import save_tree
from swerve.learning.loop import Plan, Report, Rung, train
from swerve.learning.restarts import stack

REPORTS, KILLS, PAUSE = 16, 3, 0.1
SEEDS = (0, 1)


def run(checkpoint: Path, result: Path, pause: float) -> None:
    def on_report(report: Report) -> None:
        print(report.step, flush=True)
        time.sleep(pause)  # leaves time to be killed between reports

    trained = train(
        Plan(REPORTS * STEPS, BATCH, STEPS, rungs=(Rung(0.5, 0.5),)),
        stack([toy_state(seed) for seed in SEEDS]),
        stack([toy_restart(seed) for seed in SEEDS]),
        toy_data(),
        held_out(),
        checkpoint=checkpoint,
        on_report=on_report,
    )
    save_tree(result, trained.systems, {"chosen": trained.chosen, "bound": trained.history.bound})


def launch(folder: Path) -> subprocess.Popen:
    """All launches share one cache of compiled programs, so that only the first one compiles."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # as in this process
    }
    command = [sys.executable, __file__, str(folder)]
    return subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True)


def killed_on_the_way(folder: Path, rng: np.random.Generator) -> int:
    """The last step that the run reported before it was killed."""
    with launch(folder) as process:
        for _ in range(rng.integers(1, 3)):
            step = int(process.stdout.readline())
        time.sleep(rng.uniform(0, 2 * PAUSE))
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
    assert process.returncode == -signal.SIGKILL
    return int(rest[-1]) if rest else step


@pytest.mark.slow
def test_a_killed_run_ends_at_the_same_bits_as_one_that_was_not(tmp_path):
    rng = np.random.default_rng(0)
    reached = [killed_on_the_way(tmp_path, rng) for _ in range(KILLS)]
    assert reached == sorted(set(reached))
    assert reached[-1] < REPORTS * STEPS
    with launch(tmp_path) as process:
        steps = [int(line) for line in process.stdout]
    assert process.returncode == 0
    assert steps[0] > reached[-1]  # nothing that was reported is done again
    assert steps[-1] == REPORTS * STEPS
    run(tmp_path / "whole", tmp_path / "expected", pause=0.0)
    assert (tmp_path / "result").read_bytes() == (tmp_path / "expected").read_bytes()


if __name__ == "__main__":
    run(Path(sys.argv[1], "checkpoint"), Path(sys.argv[1], "result"), PAUSE)
