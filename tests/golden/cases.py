"""Golden numbers: what small deterministic fits, readers and commands give, to tell whether anything changed.

`python tests/golden/cases.py --write` stores them anew, `--only NAME` some of them; without `--write` they are
compared. Only what people use of the package is asked, and what INTERNAL names.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")

import golden_data as data
import golden_record as record
import golden_store as store
import jax
import numpy as np
from typer.testing import CliRunner

import swerve

INTERNAL = {
    "app": "swerve.cli.main:app",
    "read": "swerve.cli.recordings:read_recordings",
    "Reading": "swerve.data.reading:Reading",
    "messages": "swerve.inference.messages",
    "kalman": "swerve_lab.rivals.kalman",
    "console": "swerve.cli.console",
}
"""Where the parts lie that have no public name."""

KINDS = ("snlds", "auto", "slds", "arhmm", "gumbel", "slds-em", "rslds", "svae", "kvae", "compile")
OURS = ("snlds", "slds", "arhmm")
SAVED = {"snlds": "run-2a79529", "arhmm": "run-2a79529-arhmm"}
VIDEO = ("model.state_size=4", "training.steps=40", "code.steps=30", "code.images_from=0.5")
SEVERAL = ("arhmm.restarts=4", "training.restarts=4")  # of which two or more are kept
FORMATS = ("csv", "segments", "parquet", "audacity", "elan")
NOISE = "persistent compilation cache"


@dataclass(frozen=True)
class Case:
    """Something that is computed in an empty folder; `quick` where every run of the tests can afford it."""

    compute: Callable[[Path], Any]
    quick: bool = False


def internal(name: str) -> Any:
    """A part of the package by the name that INTERNAL gives it."""
    module, _, attribute = INTERNAL[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def fitted(folder: Path, series: Any, kind: str, *settings: str, regimes: int = 2, **choices: Any) -> Any:
    """A run with the smallest settings, kept in a folder."""
    return swerve.fit(series, regimes, model=kind, settings=(*data.SETTINGS, *settings), out=folder / "run", **choices)


def kept(run: Any, series: Any, folder: Path, **choices: Any) -> dict[str, Any]:
    """What a run says, and what lies in its folder."""
    files = record.folder_files(folder / "run")
    parts = {name: record.tensors(folder / "run" / name) for name in files if name == "model.safetensors"}
    return record.run_numbers(run, series, **choices) | {"files": files, "arrays": parts}


def of_kind(kind: str, folder: Path) -> Any:
    """A model of numbers with gaps."""
    series = data.gapped()
    run = fitted(folder, series, kind)
    loaded = swerve.load(folder / "run")
    again = record.segmented(swerve.segment(loaded, series))
    return kept(run, series, folder) | {"loaded_is_the_same": again == record.segmented(run.segment(series))}


def with_controls(kind: str, folder: Path) -> Any:
    """A model that reads controls."""
    series = data.controlled()
    controls = np.random.default_rng(9).standard_normal((12, 2))
    return kept(fitted(folder, series, kind), series, folder, controls=controls)


def pose(kind: str, folder: Path) -> Any:
    """A model of poses as their bodies see them, from BVH files."""
    paths = [data.write_bvh(folder / f"dance{i}.bvh", 100, i) for i in range(5)]
    run = fitted(folder, paths, kind, egocentric=True)
    return kept(run, internal("read")(paths, run.reading), folder)


def many_lags(folder: Path) -> Any:
    """AR-HMMs with several lags and features, channels as one, and a consensus of restarts."""
    words = ("arhmm.lags=[0,1,2]", "arhmm.features=[0,3]", "arhmm.restarts=3")
    series = data.gapped()
    run = fitted(folder, series, "arhmm", *words, "arhmm.channels_as_one=true", "arhmm.consensus=true")
    return kept(run, series, folder)


def errors_together(folder: Path) -> Any:
    """An AR-HMM that finds out that channels err together."""
    series = data.joint_errors()
    usual = [word for word in data.SETTINGS if not word.startswith(("arhmm.lags", "arhmm.features"))]
    run = swerve.fit(series, 2, model="arhmm", settings=usual, restarts=2, out=folder / "run")
    return kept(run, series, folder)


def counting(folder: Path) -> Any:
    """An SNLDS whose regimes count events."""
    series = data.events()
    run = fitted(folder, series, "snlds", "training.window=30", "arhmm.max_iterations=30", regimes=3)
    with np.load(folder / "run" / "seeds.npz") as seeds:
        staged = not bool(seeds["0.judged"])
    return kept(run, series, folder) | {"staged": staged}


def merging(folder: Path) -> Any:
    """An SNLDS that tries to do without a regime."""
    series = data.many_short()
    return kept(fitted(folder, series, "snlds", "training.merging=0.25", regimes=3), series[:6], folder)


def long(kind: str, folder: Path) -> Any:
    """A recording that is segmented in parts."""
    series = data.long()
    run = fitted(folder, series, kind)
    inferred = run.infer(series)
    return {
        "held_out": run.held_out,
        "score": run.score(series),
        "inferred": record.segmented(inferred),
        "expected": record.picked(inferred[0].expected),
        "viterbi": record.segmented(run.segment(series, viterbi=True)),
        "trust": record.plain(run.trust.as_dict()),
    }


def video(kind: str, folder: Path) -> Any:
    """A model of images."""
    series = data.videos()
    return kept(fitted(folder, series, kind, *VIDEO), series, folder)


def choosing(kind: str, folder: Path) -> Any:
    """One regime or two."""
    paths = [str(path) for path in data.write_tables(folder)]
    words = ["--time-column", "t", "--label-column", "s", "--from", "1", "--to", "2", "--model", kind]
    said = command("choose-regimes", *paths[:5], *words, "--out", str(folder / "chosen"), *as_options())
    choice = json.loads((folder / "chosen" / "choice.json").read_text())
    return {"choice": choice, "said": said, "files": record.folder_files(folder / "chosen")}


def aligned(kind: str, folder: Path) -> Any:
    """A fit with the numbers and names of one to the same data upside down."""
    series = data.gapped()
    swerve.fit(data.mirrored(), 2, model=kind, settings=data.SETTINGS, seed=0, out=folder / "older")
    swerve.name(folder / "older", {0: "one", 1: "other"})
    run = fitted(folder, series, kind, seed=1, align_to=folder / "older")
    regimes = json.loads((folder / "run" / "regimes.json").read_text())
    return kept(run, series, folder) | {"regimes": regimes}


def resumed(kind: str, folder: Path) -> Any:
    """A fit that was stopped at its first report and went on, beside one that was not."""
    series = data.gapped()
    whole = swerve.fit(series, 2, model=kind, settings=data.SETTINGS)
    stopped = fitted(folder, series, kind, should_stop=lambda: True)
    run = fitted(folder, series, kind, resume=True)
    same = [
        np.array_equal(one.probabilities, other.probabilities)
        for one, other in zip(whole.segment(series), run.segment(series), strict=True)
    ]
    return kept(run, series, folder) | {
        "stopped": {"finished": stopped.finished, "held_out": stopped.held_out},
        "the_same": all(same) and whole.held_out == run.held_out,
    }


def estimator(folder: Path) -> Any:
    """The face for scikit-learn."""
    series = data.gapped()
    rows, lengths = np.concatenate([one.x for one in series]), [len(one.x) for one in series]
    made = swerve.Segmenter(2, model="arhmm", settings=data.SETTINGS).fit(rows, lengths=lengths)
    return {
        "labels": record.stretches(made.predict(rows, lengths=lengths)),
        "probabilities": record.picked(made.predict_proba(rows, lengths=lengths)),
        "score": float(made.score(rows, lengths=lengths)),
        "changes": made.change_points(rows, lengths=lengths).tolist(),
    }


def command_line(kind: str, folder: Path) -> Any:
    """What the commands print and write, from files with times, gaps and the truth to a report."""
    paths = [str(path) for path in data.write_tables(folder)]
    run, labels, ahead = str(folder / "run"), folder / "labels", folder / "ahead"
    roles = ["--time-column", "t", "--label-column", "s"]
    sizes = as_options(*SEVERAL)
    formats = [word for name in FORMATS for word in ("--format", name)]
    said = {
        "fit": command("fit", *paths[:5], "--model", kind, "-k", "2", "--out", run, *roles, *sizes),
        "name": command("name", run, "0=up", "1=goes down"),
        "segment": command("segment", run, *paths, "--out", str(labels), *formats),
        "viterbi": command("segment", run, *paths, "--out", str(folder / "best"), "--viterbi"),
        "consensus": command("segment", run, *paths, "--out", str(folder / "agreed"), "--consensus"),
        "forecast": command("forecast", run, *paths[4:], "--horizon", "5", "--samples", "20", "--out", str(ahead)),
        "evaluate": command("evaluate", str(labels), *whole_truth(folder, paths)),
        "report": command("report", run, "--out", str(folder / "page")),
    }
    return {
        "said": said,
        "files": record.folder_files(folder / "run"),
        "exports": record.exported(labels),
        "viterbi": record.exported(folder / "best")["segments.csv"],
        "consensus": record.exported(folder / "agreed"),
        "forecast": record.exported(ahead),
        "page": record.visible(folder / "page" / "report.html"),
        "figures": record.folder_files(folder / "page"),
    }


def whole_truth(folder: Path, paths: list[str]) -> list[str]:
    """All true regimes in one table."""
    lines = ["name,s,height"]
    for path in map(Path, paths):
        rows = [row.split(",") for row in path.read_text().splitlines()[1:]]
        lines += [f"{path.stem},{row[1]},{row[2]}" for row in rows]
    (folder / "truth.csv").write_text("\n".join([*lines, ""]))
    return [str(folder / "truth.csv"), "--sequence-column", "name"]


def command(*words: str) -> list[str]:
    """What a command prints. A refusal is an error."""
    for screen in (internal("console").console, internal("console").errors):
        screen.width = 400
    done = CliRunner().invoke(internal("app"), list(words), env={"COLUMNS": "400"}, catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(f"{' '.join(words)}: {done.output}")
    return record.printed(done.output)


def as_options(*more: str) -> list[str]:
    """The smallest settings for a command line."""
    return [word for setting in (*data.SETTINGS, *more) for word in ("--set", setting)]


def chains(folder: Path) -> Any:
    """Sums over the paths of a small chain, with padding, by constant and by varying transitions."""
    messages, rng = internal("messages"), np.random.default_rng(11)
    softmax = partial(jax.nn.log_softmax, axis=-1)
    initial, evidence = softmax(rng.normal(size=3)), jax.numpy.asarray(2 * rng.normal(size=(9, 3)), "float32")
    found = {}
    for name, shape in {"constant": (3, 3), "varying": (8, 3, 3)}.items():
        given = (initial, softmax(rng.normal(size=shape)), evidence, jax.numpy.arange(9) < 7)
        smooth, expected = messages.smooth(*given, pairs=True), messages.expectations(*given)
        found[name] = {
            "log_z": float(messages.log_normalizer(*given)),
            "gradient": record.picked(jax.grad(messages.log_normalizer, 2)(*given)),
            "filtered": record.picked(messages.filter(*given).log_filtered),
            "marginals": record.picked(smooth.marginals),
            "pairs": record.picked(smooth.pair_marginals),
            "transitions": record.picked(expected.transitions),
            "viterbi": np.asarray(messages.viterbi(*given)).ravel().tolist(),
            "sample": np.asarray(messages.sample(*given, key=jax.random.key(0))).tolist(),
        }
    return found


def linear(folder: Path) -> Any:
    """Filter, smoother and draws of a small linear system with missing values."""
    kalman, rng = internal("kalman"), np.random.default_rng(12)
    frames, size, channels = 8, 3, 2
    triangle = np.tril(0.3 * rng.normal(size=(frames - 1, size, size)), -1) + 0.6 * np.eye(size)
    turns = 0.95 * np.linalg.qr(rng.normal(size=(frames - 1, size, size)))[0]
    parts = (rng.normal(size=size), np.eye(size), turns, rng.normal(size=(frames - 1, size)), triangle)
    look = (rng.normal(size=(frames, channels, size)), rng.normal(size=(frames, channels)))
    as_arrays = partial(jax.tree.map, lambda one: jax.numpy.asarray(one, "float32"))
    dynamics = as_arrays(kalman.LinearDynamics(*parts))
    emission = as_arrays(kalman.LinearEmission(*look, rng.uniform(0.3, 0.8, size=(frames, channels))))
    x = as_arrays(2 * rng.normal(size=(frames, channels)))
    observed = jax.numpy.asarray(rng.random((frames, channels)) < 0.7)
    given = (dynamics, emission, x, observed, jax.numpy.arange(frames) < 7)
    blocks, log_z = kalman.blocks_of(dynamics)
    results = {
        "filtered": kalman.filter(*given),
        "smoothed": kalman.smooth(*given),
        "blocks": kalman.posterior_of_blocks(blocks),
        "log_z": log_z,
        "path": kalman.sample_path(dynamics, key=jax.random.key(1)),
        "draw": kalman.sample(blocks, key=jax.random.key(2)),
    }
    return {name: [record.picked(leaf, 12) for leaf in jax.tree.leaves(one)] for name, one in results.items()}


def readers(folder: Path) -> Any:
    """Every kind of file."""
    import h5py
    import pandas as pd

    series = data.whole()
    frame = pd.DataFrame({"t": np.arange(100) / 10, "s": series[0].s, "height": series[0].x[:, 0]})
    frame["who"] = np.where(np.arange(100) < 60, "ann", "bob")
    frame.loc[::9, "height"] = np.nan
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_csv(folder / "table.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "table.parquet")
    (folder / "late.csv").write_text("t,a,b\n0.0,1,2\n0.1,2,\n0.4,3,5\n0.5,4,6\n0.6,5,1\n0.7,5,1\n0.8,5,1\n0.9,2,1\n")
    np.savez(folder / "stack.npz", x=np.stack([one.x for one in series]), s=np.stack([one.s for one in series]))
    np.savez(folder / "walks.npz", **{f"walk{one.name}": one.x[: 50 + int(one.name)] for one in series})
    np.savez(folder / "points.npz", mouse=np.arange(48.0).reshape(8, 3, 2) ** 1.5, joint_names=np.array(list("abc")))
    np.savez(folder / "images.npz", x=np.stack([one.x.reshape(-1, 16, 16) for one in data.videos()]))
    np.save(folder / "one.npy", series[0].x)
    with h5py.File(folder / "tables.h5", "w") as file:
        file["mouse/t"], file["mouse/paw"] = np.arange(100) / 10, series[0].x
        file["rat/t"], file["rat/paw"] = np.arange(100) / 10, series[1].x
    with h5py.File(folder / "sleap.h5", "w") as file:
        file["tracks"] = np.arange(60, dtype=float).reshape(2, 2, 3, 5) ** 1.1
        file["node_names"] = np.array([b"nose", b"thorax", b"tail"])
        file["track_names"], file["edge_inds"] = np.array([b"a", b"b"]), np.array([[1, 0], [1, 2], [0, 1]])
    data.write_bvh(folder / "dance.bvh", 30, 0)
    texts = {"arm.asf": data.ASF, "arm.amc": data.AMC, "mouse.csv": data.DEEPLABCUT, "tracks.csv": data.SLEAP}
    for name, text in texts.items():
        (folder / name).write_text(text)
    roles = {"time_column": "t", "label_column": "s", "sequence_column": "who"}
    asked: dict[str, dict[str, Any]] = {
        **{f"table.{ending}": roles for ending in ("csv", "tsv", "parquet")},
        "late.csv": {"time_column": "t"},
        **{name: {} for name in ("stack.npz", "walks.npz", "points.npz", "images.npz", "one.npy", "sleap.h5")},
        "tables.h5": {"time_column": "t"},
        **{name: {} for name in ("dance.bvh", "arm.amc", "mouse.csv", "tracks.csv")},
    }
    found = {name: seen(folder / name, **choices) for name, choices in asked.items()}
    found["egocentric"] = seen(folder / "dance.bvh", egocentric=True)
    found["rate"] = seen(folder / "late.csv", time_column="t", rate=5.0)
    found["every"] = seen(folder / "one.npy", skip=3, every=2)
    found["controls"] = seen(folder / "late.csv", time_column="t", control_columns=("a",), columns=("b",))
    found["likelihood"] = seen(folder / "mouse.csv", least_likelihood=0.1)
    return found


def seen(path: Path, **choices: Any) -> Any:
    """The recordings of a file, or why there are none."""
    try:
        recordings = internal("read")([path], internal("Reading")(**choices))
    except swerve.InputError as error:
        return {"refusal": str(error)}
    return [_seen(one) for one in recordings]


def _seen(one: swerve.Series) -> dict[str, Any]:
    kept = {"name": one.name, "columns": list(one.columns)[:12], "missing": int(np.isnan(one.x).sum())}
    parts = {"x": one.x, "u": one.u, "s": one.s, "times": one.times, "rows": one.rows}
    kept |= {name: record.picked(part, 8) for name, part in parts.items() if part is not None}
    if one.skeleton is not None:
        kept["skeleton"] = [list(one.skeleton.joints), list(one.skeleton.parents), list(one.skeleton.axes)]
    if one.clock is not None:
        kept["source"] = {"inserted": one.clock.inserted, "covered_by": record.picked(one.clock.covered_by, 8)}
    return kept | {"image": None if one.image is None else list(one.image)}


def saved(kind: str, folder: Path) -> Any:
    """What a run that was saved at the commit in its name says today."""
    run = swerve.load(store.HERE / SAVED[kind])
    return record.run_numbers(run, data.gapped())


CASES: dict[str, Case] = {
    **{f"kind-{kind}": Case(partial(of_kind, kind), quick=kind == "arhmm") for kind in KINDS},
    **{f"controls-{kind}": Case(partial(with_controls, kind)) for kind in OURS},
    **{f"pose-{kind}": Case(partial(pose, kind)) for kind in OURS},
    "arhmm-lags": Case(many_lags),
    "arhmm-joint-errors": Case(errors_together),
    "events": Case(counting),
    "merging": Case(merging),
    **{f"long-{kind}": Case(partial(long, kind)) for kind in ("snlds", "arhmm")},
    **{f"video-{kind}": Case(partial(video, kind)) for kind in ("snlds", "gumbel")},
    **{f"choose-{kind}": Case(partial(choosing, kind)) for kind in ("snlds", "arhmm")},
    **{f"aligned-{kind}": Case(partial(aligned, kind)) for kind in ("snlds", "arhmm")},
    "resumed-snlds": Case(partial(resumed, "snlds")),
    "estimator": Case(estimator, quick=True),
    **{f"cli-{kind}": Case(partial(command_line, kind), quick=kind == "arhmm") for kind in ("snlds", "arhmm")},
    "messages": Case(chains, quick=True),
    "kalman": Case(linear, quick=True),
    "readers": Case(readers, quick=True),
    **{f"saved-{kind}": Case(partial(saved, kind), quick=True) for kind in SAVED},
}


def compute(name: str) -> Any:
    """What a case gives now, with the warnings that people would see; folders are called FOLDER."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = CASES[name].compute(Path(folder))
        found = json.loads(json.dumps(found).replace(folder, "FOLDER"))
        texts = [str(one.message).replace(folder, "FOLDER") for one in caught if one.category is UserWarning]
    return {"found": found, "warnings": [text for text in texts if NOISE not in text]}


def alike() -> None:
    """Compiles as the tests do: little optimisation, whatever was compiled before."""
    jax.clear_caches()
    jax.config.update("jax_disable_most_optimizations", True)


def save_runs() -> None:
    """Leaves a run of each kind in SAVED as a fit leaves it, without what only a fit needs."""
    for kind, name in SAVED.items():
        folder = store.HERE / name
        if folder.exists():
            raise FileExistsError(f"{folder} tells what an older commit wrote: it stays.")
        swerve.fit(data.gapped(), 2, model=kind, settings=(*data.SETTINGS, *SEVERAL), out=folder)
        for left in ("training.safetensors", "seeds.npz"):
            (folder / left).unlink(missing_ok=True)


def main() -> int:
    """Compares or stores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store what is found")
    parser.add_argument("--save-runs", action="store_true", help="leave the runs that later commits must load")
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="this case; may be repeated")
    parser.add_argument("--exact", action="store_true", help="to the last bit")
    options = parser.parse_args()
    cache = store.HERE.parents[1] / ".pytest_cache" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    alike()
    if options.save_runs:
        save_runs()
    changed = 0
    for name in options.only or CASES:
        began = time.perf_counter()
        found = compute(name)
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        if options.write:
            store.save({name: found})
            continue
        for line in store.differences(store.load()["cases"].get(name, {}), found, exact=options.exact):
            changed += 1
            print(f"{name}: {line}", flush=True)
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
