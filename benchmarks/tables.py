"""Prints the stored benchmarks as Markdown, for docs/benchmarks.md: python benchmarks/tables.py"""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def main():
    for path in sorted(RESULTS.glob("train-step-*.json")):
        stored = json.loads(path.read_text())
        print(f"\n{path.stem}: {stored['hardware']}, commit {stored['commit'][:7]}\n")
        names = ("shape", "restarts", "ms_per_step", "ms_per_step_and_restart", "compile_seconds", "peak_mib")
        table([*names, "cost_against_paper_posterior"], stored.get("restarts", []))
        table(["vary", "value", "ms_per_step", "peak_mib", "cost_ratio_over_linear"], stored.get("growth", []))
    for path in sorted(RESULTS.glob("messages-*.json")):
        stored = json.loads(path.read_text())
        print(f"\n{path.stem}: {stored['hardware']}, commit {stored['commit'][:7]}\n")
        table(
            ["T", "K", "swerve_ms", "hmmlearn_ratio", "autodiff_ratio", "error"],
            map(smoothing_row, stored["smoothing"]),
        )
    for path in sorted(RESULTS.glob("long-*.json")):
        stored = json.loads(path.read_text())
        print(f"\n{path.stem}: {stored['hardware']}, commit {stored['commit'][:7]}\n")
        names = ("frames", "seconds", "cpu_seconds", "frames_per_cpu_second", "cost_per_frame_ratio", "peak_mib")
        table([*names, "memory_ratio"], stored["rows"])
    for path in sorted(RESULTS.glob("start-*.json")):
        stored = json.loads(path.read_text())
        print(f"\n{path.stem}: {stored['hardware']}, commit {stored['commit'][:7]}\n")
        table(["case", "cpu_seconds", "ratio"], stored["rows"])
    for path in sorted(RESULTS.glob("arhmm-*.json")):
        stored = json.loads(path.read_text())
        print(f"\n{path.stem}: {stored['hardware']}, commit {stored['commit'][:7]}\n")
        names = ("problem", "tool", "compile_seconds", "seconds", "nats_per_frame", "frames_percent")
        table([*names, "ratio_run", "ratio_with_compile"], stored["rows"])


def smoothing_row(row):
    ours = row["swerve"]
    ratios = {f"{peer}_ratio": row[peer]["ms"] / ours["ms"] for peer in ("hmmlearn", "autodiff") if row.get(peer)}
    return {"T": row["T"], "K": row["K"], "swerve_ms": ours["ms"], "error": ours["marginal_error"], **ratios}


def table(names, rows):
    print("|", " | ".join(name.replace("_", " ") for name in names), "|")
    print("|" + "---|" * len(names))
    for row in rows:
        cells = (row.get(name, "") for name in names)
        print("|", " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells), "|")
    print()


if __name__ == "__main__":
    main()
