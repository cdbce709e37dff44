"""Files and folders appear whole or not at all, and errors speak of the path that the user typed."""

import errno
import os
from pathlib import Path

import pytest

from swerve.data.atomic import whole_file, whole_folder


@pytest.fixture
def read_only(monkeypatch):
    """A disk on which nothing can be made or removed."""

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    for name in ("mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(Path, "write_text", refuse)


def refused(writer, path) -> OSError:
    with pytest.raises(OSError, match="could not be written") as error, writer(path) as temporary:
        (temporary / "one.csv" if temporary.is_dir() else temporary).write_text("new")
    return error.value


@pytest.mark.parametrize("writer", [whole_file, whole_folder])
def test_a_read_only_disk_is_told_of_by_the_user_s_path(tmp_path, read_only, writer):
    path = tmp_path / "labels"
    error = refused(writer, path)
    assert (error.errno, error.filename) == (errno.EROFS, str(path))
    assert error.strerror == "could not be written (Read-only file system)"


@pytest.mark.parametrize(
    ("writer", "inside"), [(whole_file, "w.csv/x.csv"), (whole_folder, "w.csv"), (whole_folder, "w.csv/labels/new")]
)
def test_a_file_that_is_taken_for_a_folder(tmp_path, writer, inside):
    (tmp_path / "w.csv").write_text("mine")
    error = refused(writer, tmp_path / inside)
    assert error.filename == str(tmp_path / inside)
    assert [path.name for path in tmp_path.iterdir()] == ["w.csv"]


def test_parents_that_can_not_all_be_made_are_taken_back(tmp_path, monkeypatch):
    mkdir = os.mkdir

    def full(path, *rest):
        if Path(path).name == "inner":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        mkdir(path, *rest)

    monkeypatch.setattr(os, "mkdir", full)
    error = refused(whole_folder, tmp_path / "outer" / "inner" / "labels")
    assert error.filename == str(tmp_path / "outer" / "inner" / "labels")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
def test_folders_inside_a_folder_come_along(tmp_path, there):
    report = tmp_path / "report"
    if there:
        (report / "figures").mkdir(parents=True)
        (report / "figures" / "mine.png").write_text("mine")
    with whole_folder(report) as temporary:
        (temporary / "figures").mkdir()
        (temporary / "figures" / "new.png").write_text("new")
        (temporary / "report.html").write_text("page")
    files = {str(path.relative_to(report)) for path in report.rglob("*") if path.is_file()}
    assert files == {"figures/new.png", "report.html"} | ({"figures/mine.png"} if there else set())
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_file_inside_a_folder_is_told_of_once(tmp_path):
    with (
        pytest.raises(OSError, match="could not be written") as error,
        whole_folder(tmp_path / "new") as temporary,
        whole_file(temporary / "page.html"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert error.value.strerror == "could not be written (No space left on device)"
    assert error.value.filename == str(tmp_path / "new")
