"""CPU seconds until Swerve has started, beside Python with what a command line needs: python benchmarks/start.py

Every case starts a Python of its own, in turn, and its median counts; files and bytecode are warm. `segment` refuses a
run that is not there: it pays for what a command loads before it works.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from swerve_lab.experiments.reproduce import surroundings

FLOOR = "import typer, rich, numpy"
COMMAND = "from swerve.cli.main import main; main()"
CASES = {
    FLOOR: [FLOOR],
    "swerve --version": [COMMAND, "--version"],
    "swerve --help": [COMMAND, "--help"],
    "swerve fit --help": [COMMAND, "fit", "--help"],
    "swerve segment, no such run": [COMMAND, "segment", "no-such-run", "data.csv", "--out", "labels"],
    "import swerve": ["import swerve"],
    "from swerve import fit": ["from swerve import fit"],
}


def cpu_seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(times):
    seconds = {name: [] for name in CASES}
    for _ in range(times + 1):
        for name, words in CASES.items():
            seconds[name].append(cpu_seconds(words))
    medians = {name: statistics.median(found[1:]) for name, found in seconds.items()}  # the first warms files
    return [{"case": name, "cpu_seconds": found, "ratio": found / medians[FLOOR]} for name, found in medians.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {**surroundings(), "rows": measure(options.times)}
    table = Table(title=f"Starting, {results['hardware']}")
    for name in results["rows"][0]:
        table.add_column(name.replace("_", " "), justify="right")
    for one in results["rows"]:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else value for value in one.values()))
    Console(width=100).print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
