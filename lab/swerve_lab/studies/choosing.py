"""How many regimes, on boards where that is known.

    python -m swerve_lab.studies.choosing [BOARD ...] [--model NAME] [--decide]

Five draws of each board, every number of regimes, all restarts on one axis. Results under experiments/results/choosing:
what the restarts of a model tell, and the choices that follow from it. Stopped, it goes on where it was. Truth is for
scoring the choice, and chooses nothing.
"""

import argparse
import hashlib
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from swerve import api
from swerve.choosing.regimes import Choice, Evidence, Restarts, decide_in_turn
from swerve.choosing.trust import agreement
from swerve.choosing.use import in_use
from swerve.cli import display
from swerve.data.trees import write_json
from swerve.learning import regimes as choosing
from swerve.learning.preparation import Prepared, prepare
from swerve_lab.boards import catalog as boards
from swerve_lab.experiments.reproduce import surroundings

RESULTS = Path("experiments/results/choosing")
WORK = Path("runs/choosing")
BOARDS = {
    "bouncing-ball": (2, []),
    "dubins-positions-0.01": (3, []),
    "fields-0.02": (3, ["model.state_size=2", "training.window=100", "training.batch_size=16", "training.steps=1500"]),
}
"""The true number of regimes, and settings; those of the fields, twice as long, are for a CPU."""
MODELS = ("snlds", "slds")
SEEDS = (7301, 7302, 7303, 7304, 7305)
FRESH = (7401, 7402, 7403, 7404, 7405)
"""Draws that nobody had looked at when the rule was written."""
SEQUENCES, TRIED = 300, range(1, 6)
SETTINGS = ["training.steps=3000", "training.report_every=500", "training.validation_share=0.15"]
QUICK = [
    *("training.steps=20", "training.report_every=10", "training.restarts=2", "posterior.encoder_size=4"),
    *("posterior.causal_size=4", "model.dynamics_hidden=[4]", "arhmm.lags=[1]", "arhmm.features=[0]"),
]


def search(name: str, model: str, *, quick: bool, fresh: bool) -> None:
    """Trains every number of regimes on every draw, and keeps what they tell."""
    truth, own = BOARDS[name]
    seeds = FRESH if fresh else SEEDS
    seeds, sequences, tried = (seeds[:2], 30, range(1, 4)) if quick else (seeds, SEQUENCES, TRIED)
    drawn = [boards.find(name).generate(sequences, seed=seed) for seed in seeds]
    frames = drawn[0].x.shape[1]
    config = api.make_config(
        max(tried), model, settings=[f"training.window={frames}", *SETTINGS, *own, *(QUICK if quick else [])]
    )
    sources = [prepare(board.series(), config) for board in drawn]
    digest = hashlib.sha256(f"{config} {seeds} {sequences} {tried}".encode()).hexdigest()[:8]
    work = WORK / f"{name}-{digest}"
    work.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with display.stop_on_interrupt() as stop, display.training_progress(config.training.steps) as show:
        found = choosing.train_all(sources, config, tried, out=work, on_report=show, on_note=show, should_stop=stop)
    rows = [{"seed": seed, **told(one, source)} for seed, one, source in zip(seeds, found, sources, strict=True)]
    about = {
        "board": name,
        "model": model,
        "true_regimes": truth,
        "sequences": sequences,
        "settings": [*SETTINGS, *own],
    }
    seconds = {"wall_seconds": round(time.perf_counter() - began, 1)}
    write_json(stored(name, model, quick, fresh), {**about, "rows": rows, **seconds, **surroundings()})


def stored(name: str, model: str, quick: bool, fresh: bool) -> Path:
    folder = WORK / f"{name}-quick" if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}{'-fresh' if fresh else ''}-{model}.json"


def told(found: dict[int, Restarts], source: Prepared) -> dict:
    """What the rule reads, and what another rule would need to be tried on the same models."""
    lengths = np.asarray(source.validation.valid).sum(axis=1)
    every = {}
    for regimes, one in found.items():
        pairs = agreement([[labels] for labels in one.labels], max(found)).pairwise
        every[str(regimes)] = {
            "bounds": [round(float(w.sum() / lengths.sum()), 4) for w in one.windows],
            "windows": [np.round(w, 2).tolist() for w in one.windows],
            "pairwise": [round(pair, 4) for pair in pairs],
            "in_use": [np.bincount(labels, minlength=max(found)).tolist() for labels in one.labels],
        }
    return {"by_regimes": every, "lengths": lengths.tolist()}


def evidence(row: dict) -> dict[int, Evidence]:
    """The inverse, as far as the rule reads it."""
    found = {}
    for regimes, one in row["by_regimes"].items():
        restarts = len(one["windows"])
        half = max(2, -(-restarts // 2))
        pairs = zip(itertools.combinations(range(restarts), 2), one["pairwise"], strict=True)
        agreed = [value for (_, last), value in pairs if last < half]
        used = int(in_use(np.array(one["in_use"][0])).sum())
        found[int(regimes)] = Evidence(np.array(one["windows"][0]), float(np.mean(agreed)), used)
    return found


def in_turn(row: dict, asked: Sequence[str]) -> Choice | None:
    """The choice on one draw, or None where it would take a search that has not been run."""
    there = list(itertools.takewhile(row.__contains__, asked))
    if not there:
        return None
    needed = []

    def searches():
        for model in asked:
            needed.append(model)
            if model in there:
                yield model, evidence(row[model])

    choice = decide_in_turn(searches(), np.array(row[there[0]]["lengths"]))
    return choice if needed == there[: len(needed)] else None


def decide(name: str, *, quick: bool, fresh: bool) -> None:
    """The choice on every draw, of every model that has been run."""
    choices, right, truth = {}, {}, BOARDS[name][0]
    paths = {model: stored(name, model, quick, fresh) for model in MODELS}
    searches = {model: json.loads(path.read_text()) for model, path in paths.items() if path.is_file()}
    if not searches:
        return
    draws = [{row["seed"]: row for row in search["rows"]} for search in searches.values()]
    assert all(one.keys() == draws[0].keys() for one in draws)
    rows = [
        {"seed": seed, **{model: of_model[seed] for model, of_model in zip(searches, draws, strict=True)}}
        for seed in draws[0]
    ]
    for model, asked in {**{model: (model,) for model in searches}, "auto": kinds.SEARCHED}.items():
        made = [in_turn(row, asked) for row in rows]
        if None in made:
            print(f"{name} {model}: needs a search that has not been run")
            continue
        choices[model] = [one.as_dict() for one in made if one is not None]
        right[model] = sum(one["regimes"] == truth for one in choices[model])
        for row, one in zip(rows, choices[model], strict=True):
            print(f"{name} {model} {row['seed']}: {one['regimes']} of {truth}: {one['reason']}")
        print(f"{name} {model}: right in {right[model]} of {len(choices[model])}", flush=True)
    about = {"board": name, "true_regimes": truth, "seeds": [row["seed"] for row in rows], "right": right}
    commits = {model: search["commit"] for model, search in searches.items()}
    write_json(stored(name, "choices", quick, fresh), {**about, "choices": choices, "commits": commits})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="*", choices=[[], *BOARDS], metavar="BOARD", help=", ".join(BOARDS))
    parser.add_argument("--model", choices=MODELS, help="only this one")
    parser.add_argument("--quick", action="store_true", help="minutes, to see that it works")
    parser.add_argument("--fresh", action="store_true", help="five other draws, kept apart")
    parser.add_argument("--decide", action="store_true", help="train nothing; choose from what is stored")
    options = parser.parse_args()
    for name in options.boards or BOARDS:
        for model in [options.model] if options.model else MODELS:
            if not options.decide:
                search(name, model, quick=options.quick, fresh=options.fresh)
        decide(name, quick=options.quick, fresh=options.fresh)


if __name__ == "__main__":
    main()
