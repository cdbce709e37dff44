"""Help, and how commands end: interrupts, full disks, too little memory."""

import errno
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
from jax.errors import JaxRuntimeError
from shell import COLUMNS, OPTIONS, swerve

from swerve import __version__ as version
from swerve.cli import display
from swerve.cli import main as cli
from swerve.runs import fit as runs

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself(command):
    shown = swerve(command, "--help")
    assert " ".join(str(cli.COMMANDS[command].__doc__).split()[:5]) in shown
    assert "--help" in shown


def test_help_names_every_command():
    shown = swerve("--help")
    assert list(cli.COMMANDS) == ["demo", "fit", "choose-regimes", "segment", "name", "forecast", "evaluate", "report"]
    assert all(command in shown for command in cli.COMMANDS)
    assert "finds the regimes in time series" in shown


def test_the_version():
    assert swerve("--version") == f"swerve {version}"


def test_ctrl_c_before_anything_is_learned_stops_at_once():
    with display.stop_on_interrupt() as should_stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not should_stop()
        signal.raise_signal(signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_ends_with_a_word_and_its_own_exit_code(balls, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fit", interrupted)
    monkeypatch.setattr(sys, "argv", ["swerve", "fit", str(balls), "--out", str(tmp_path / "run"), *COLUMNS])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.strip() == "Stopped. What was kept goes on with --resume."


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(balls, tmp_path, refuse, monkeypatch):
    def no_space(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    shown = refuse("fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert "run.json: could not be written (No space left on device)." in shown
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_leaves_a_run_to_resume(balls, tmp_path, refuse, monkeypatch):
    command = ["fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS]
    whole, calls = os.fsync, itertools.count()

    def no_space(handle):
        if next(calls) >= 2:  # a file and its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(handle)

    monkeypatch.setattr(os, "fsync", no_space)
    assert "model.safetensors: could not be written" in refuse(*command)
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["run.json"]
    monkeypatch.undo()
    swerve(*command, "--resume")


def test_a_full_disk_leaves_no_labels(refuse, linear, balls, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shown = refuse("segment", linear, balls, "--out", tmp_path / "labels", *COLUMNS)
    assert shown == f"Error: {tmp_path / 'labels'}: could not be written (No space left on device).\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_written_is_refused(balls, tmp_path, refuse, monkeypatch):
    def forbidden(self, *arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    shown = refuse("fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert f"{tmp_path / 'run'}: Permission denied." in shown


def test_too_little_memory_is_no_crash(refuse, linear, balls, tmp_path, monkeypatch):
    def starved(*_, **__):
        raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4000000000000 bytes.")

    monkeypatch.setattr(runs.Run, "segment", starved)
    shown = refuse("segment", linear, balls, *COLUMNS, "--out", tmp_path / "labels")
    assert "There is not enough memory for this: fewer --regimes" in shown


def test_other_mistakes_of_jax_are_shown_as_they_are(linear, balls, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise JaxRuntimeError("INTERNAL: something broke.")

    monkeypatch.setattr(runs.Run, "segment", broken)
    monkeypatch.setattr(sys, "argv", ["swerve", "segment", *map(str, [linear, balls, "--out", tmp_path]), *COLUMNS])
    with pytest.raises(JaxRuntimeError, match="something broke"):
        cli.main()
