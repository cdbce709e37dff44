"""Runs the demo with seeds 0 to 4 and stores all five results: python experiments/demo_seeds.py

A seed whose run folder already holds scores is not run again.
"""

import json
from dataclasses import asdict
from pathlib import Path

from swerve.demo import SCORES, demo_config, run
from swerve.reproduce import surroundings
from swerve.training.checkpoint import write_json

SEEDS = range(5)
RUNS = Path("runs")
RESULT = Path(__file__).parent / "results" / "demo.json"


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
            "config": asdict(demo_config(0)),
            **surroundings(),
        },
    )
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
