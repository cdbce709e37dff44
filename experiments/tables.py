"""Prints the stored results as Markdown, for README and docs: python experiments/tables.py"""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
SHOWN = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5")


def main():
    print("| board | model | row | frame F1 | switch F1, exact | switch F1, ±5 | success | commit |")
    print("|---|---|---|---|---|---|---|---|")
    for path in sorted(RESULTS.glob("*/*.json")):
        stored = json.loads(path.read_text())
        if "scores" not in stored:
            continue
        cells = [f"{stored['scores'][name]['mean']:.1f} ± {stored['scores'][name]['sd']:.1f}" for name in SHOWN]
        rate = stored.get("success_rate")
        cells.append("" if rate is None else f"{100 * rate:.0f} %")
        print("|", " | ".join([stored["board"], stored["model"], stored["row"], *cells, stored["commit"][:7]]), "|")


if __name__ == "__main__":
    main()
