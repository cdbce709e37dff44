"""Files and folders that appear whole or not at all: written beside their place, forced to disk, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to. It becomes `path` at the end; a failure half-way leaves the old file as it was."""
    temporary = path.with_name(f".{path.name}.tmp")  # always the same: what a kill left behind is written over
    try:
        yield temporary
        _force_to_disk(temporary)
        temporary.replace(path)
        _force_to_disk(path.parent)
    except OSError as error:
        raise _not_written(path, error) from None
    finally:
        with suppress(OSError):  # there may be none, or a disk that can not be written at all
            temporary.unlink()


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files to. All of them move into `folder` at the end; after a failure there is none of them."""
    new = not folder.exists()
    created = _missing_parents(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = folder.parent if new else folder
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=beside, ignore_cleanup_errors=True) as name:
            temporary = Path(name)
            yield temporary
            _move(temporary, folder, new=new)
        created = []
        _force_to_disk(folder)
    except OSError as error:
        raise _not_written(folder, error) from None
    finally:
        for parent in created:
            with suppress(OSError):  # it was not made, or somebody else uses it by now
                parent.rmdir()


def _move(temporary: Path, folder: Path, *, new: bool) -> None:
    files = [path for path in temporary.rglob("*") if path.is_file()]
    for file in files:
        _force_to_disk(file)
    if new:
        temporary.chmod(0o777 & ~_umask())  # a temporary folder lets nobody else in
        temporary.rename(folder)
        return
    for file in files:
        target = folder / file.relative_to(temporary)
        target.parent.mkdir(exist_ok=True, parents=True)
        file.replace(target)


def _not_written(path: Path, error: OSError) -> OSError:
    """The error with the name that the user knows: a full disk tells none, others the hidden one."""
    reason = os.strerror(error.errno) if error.errno else error
    return OSError(error.errno, f"could not be written ({reason})", str(path))


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
