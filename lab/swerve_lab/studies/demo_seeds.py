"""Runs the demo with seeds 0 to 4 and stores all five results: python -m swerve_lab.studies.demo_seeds

A seed whose run folder already holds scores is not run again.
"""

import json
from pathlib import Path

from swerve.cli.demo import SCORES, demo_config, run
from swerve.data.trees import write_json
from swerve.settings.text import as_dict
from swerve_lab.experiments.reproduce import surroundings

SEEDS = range(5)
RUNS = Path("runs")
RESULT = Path("experiments/results/demo.json")


def main():
    stored = {}
    for seed in SEEDS:
        folder = RUNS / f"demo-{seed}"
        if not (folder / "scores.json").is_file():
            run(seed, folder)
        scores = json.loads((folder / "scores.json").read_text())
        history = json.loads((folder / "history.json").read_text())
        stored[str(seed)] = {
            **scores,
            "training_seconds": round(history["seconds"], 1),
            "trained_on": history["hardware"],
        }
    summary = {name: [round(stored[str(seed)][name], 2) for seed in SEEDS] for name in SCORES}
    write_json(
        RESULT,
        {
            "board": "bouncing-ball",
            "model": "snlds",
            "row": "make demo, seeds 0-4",
            "scores": summary,
            "runs": stored,
            "config": as_dict(demo_config(0)),
            **surroundings(),
        },
    )
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
