"""Files and folders that appear whole or not at all: written beside their place, forced to disk, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to. It becomes `path` at the end; a failure half-way leaves the old file as it was."""
    temporary = path.with_name(f".{path.name}.tmp")  # always the same: what a kill left behind is written over
    try:
        yield temporary
        _force_to_disk(temporary)
        temporary.replace(path)
    except OSError as error:  # a full disk does not say which file
        raise OSError(error.errno, f"could not be written ({error.strerror or error})", str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    _force_to_disk(path.parent)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files to. All of them move into `folder` at the end; after a failure there is none of them."""
    new = not folder.exists()
    created = _missing_parents(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent if new else folder))
    try:
        yield temporary
        for file in temporary.iterdir():
            _force_to_disk(file)
        if new:
            temporary.chmod(0o777 & ~_umask())  # mkdtemp lets nobody else in
            temporary.rename(folder)
        else:
            for file in temporary.iterdir():
                file.replace(folder / file.name)
        created = []
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in created:
            parent.rmdir()
    _force_to_disk(folder)


def _missing_parents(folder: Path) -> list[Path]:
    """The parents that have to be made, the innermost first."""
    return [parent for parent in folder.parents if not parent.exists()]


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
