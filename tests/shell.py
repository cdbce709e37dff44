"""The command line as a person meets it: words in; what is shown, or the one sentence of a refusal, out."""

import sys

import pytest
import typer
from tiny import SETTINGS
from typer.testing import CliRunner

from swerve.cli import main as cli

OPTIONS = ["-k", 2, *(word for setting in SETTINGS for word in ("--set", setting))]
COLUMNS = ["--sequence-column", "sequence", "--label-column", "s"]


def swerve(*words, app: typer.Typer = cli.app) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


class Refuse:
    """Runs a program as from a shell, expects a refusal, and returns its one sentence."""

    def __init__(self, main, monkeypatch, capsys):
        self.main, self.monkeypatch, self.capsys = main, monkeypatch, capsys

    def __call__(self, *words) -> str:
        self.monkeypatch.setattr(sys, "argv", ["swerve", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            self.main()
        shown = self.capsys.readouterr().err
        assert stopped.value.code == 2
        assert "Traceback" not in shown
        assert shown.startswith("Error: ")
        assert shown.count("\n") == 1
        assert shown.endswith((".\n", "?\n"))
        return shown
