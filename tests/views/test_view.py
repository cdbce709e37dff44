"""What every view owes those who use it: the same checks for all in the registry, and for one with a slow clock."""

from dataclasses import replace
from typing import ClassVar

import jax
import numpy as np
import pytest
from tiny import SETTINGS

import swerve
from swerve import api
from swerve.data import tables
from swerve.data.columns import names_of
from swerve.data.reading import Reading
from swerve.errors import InputError
from swerve.runs.infer import Inferred
from swerve.types import Recording, Skeleton
from swerve.views import view as views
from swerve.views.codes import CodeOptions
from swerve.views.raw import Raw
from swerve.views.view import View, paced

pytestmark = pytest.mark.usefixtures("quick_compilation")

MOUSE = Skeleton(("nose", "ear", "tail_base"), (-1, -1, -1), ("x", "y"))
SMALL = {"codes": {"options": CodeOptions(size=2, steps=20, batch_size=8, learning_rate=1e-2)}}
"""Settings for views whose own are too slow for a test."""


def numbers(seed: int) -> Recording:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 3)).cumsum(axis=0)
    x[10:12], x[20, 1] = np.nan, np.nan
    return Recording(
        x, u=rng.normal(size=(30, 1)), s=np.arange(30) // 10, name=f"take {seed}", times=np.arange(30) / 10
    )


def pose(seed: int) -> Recording:
    walk = np.random.default_rng(seed).normal(size=(30, 3, 2)).cumsum(axis=0) * 0.1
    x = (walk + np.array([[3, 0], [2, 1], [-3, 0]])).reshape(30, -1)
    return replace(
        numbers(seed), x=np.where(np.isnan(numbers(seed).x[:, :1]), np.nan, x), columns=MOUSE.columns, skeleton=MOUSE
    )


def video(seed: int) -> Recording:
    x = np.random.default_rng(seed).normal(size=(30, 20))
    return replace(numbers(seed), x=np.where(np.isnan(numbers(seed).x[:, :1]), np.nan, x), image=(4, 5))


def learned(name: str, recordings: list[Recording]) -> View | None:
    """The view after a look at the recordings; None if they are nothing for it."""
    try:
        view = views.find(name)(**SMALL.get(name, {})).learn(recordings, key=jax.random.key(0))
        view.read(recordings[0])
    except InputError:
        return None
    return view


@pytest.fixture(scope="module", params=views.every())
def taken(request) -> list[tuple[View, list[Recording]]]:
    """A view with the recordings it reads: numbers, poses, video."""
    kinds = [[make(seed) for seed in range(3)] for make in (numbers, pose, video)]
    found = [(learned(request.param, recordings), recordings) for recordings in kinds]
    return [(view, recordings) for view, recordings in found if view is not None]


def test_a_view_reads_something(taken):
    assert taken


def test_it_keeps_all_but_the_columns_and_has_a_name_for_each(taken):
    for view, recordings in taken:
        for before, after in zip(recordings, map(view.read, recordings), strict=True):
            assert after.name == before.name and after.x.shape == (len(after), len(names_of(after)))
            assert after.columns == view.read(recordings[0]).columns
            for part in (after.u, after.s, after.times):
                assert part is not None and len(part) == len(after)


def test_labels_have_a_way_back_to_every_row(taken):
    for view, recordings in taken:
        found = view.read(recordings[0])
        labels = np.arange(len(found))
        back = in_rows(found, labels)
        assert len(back.labels) == len(recordings[0]) and (np.diff(back.labels) >= 0).all()


def test_what_is_missing_stays_missing_and_nothing_is_infinite(taken):
    for view, recordings in taken:
        x = view.read(recordings[0]).x
        assert np.isnan(x[10:12]).all() or len(x) < len(recordings[0])
        assert not np.isinf(x).any() and not np.isnan(x).all(axis=0).any()


def test_what_it_reads_depends_on_the_recording_alone(taken):
    for view, recordings in taken:
        first = view.read(recordings[1])
        view.read(recordings[0])
        again = view.read(replace(recordings[1], x=recordings[1].x.copy()))
        np.testing.assert_array_equal(first.x, again.x)


def test_the_way_back_leads_to_the_files_columns_or_nowhere(taken):
    for view, recordings in taken:
        back = view.write(view.read(recordings[0]).x)
        assert back is None or back.shape[1] == recordings[0].x.shape[1]


def test_a_view_that_is_kept_reads_the_same(taken, tmp_path):
    for view, recordings in taken:
        views.save(tmp_path / "view.safetensors", view)
        kept = views.load(tmp_path / "view.safetensors")
        assert type(kept) is type(view) and kept.name == view.name
        np.testing.assert_array_equal(kept.read(recordings[2]).x, view.read(recordings[2]).x)


def test_raw_is_what_it_was():
    recording = numbers(0)
    assert Raw().read(recording) is recording and Raw().write(recording.x) is recording.x


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="There is no view 'ra': did you mean 'raw'"):
        views.find("ra")
    (tmp_path / "view.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged"):
        views.load(tmp_path / "view.safetensors")


class Slow(View):
    """Mean and spread over windows of 4 frames, 2 frames apart, each standing at its last frame."""

    name: ClassVar[str] = "slow"

    def read(self, recording):
        last = np.arange(3, len(recording), 2)
        windows = np.stack([recording.x[end - 3 : end + 1, 0] for end in last])
        return paced(recording, last, np.stack([windows.mean(axis=1), windows.std(axis=1)], axis=1), ("mean", "spread"))


@pytest.fixture
def slowly(monkeypatch):
    monkeypatch.setitem(views._known, "slow", f"{__name__}:Slow")
    monkeypatch.setattr(Reading, "view", "slow")


def in_rows(recording: Recording, labels):
    """Labels of its frames in the rows of its file."""
    return Inferred(labels, np.eye(len(labels)), np.empty((0, 1)), recording.name).in_rows(recording)


def walk(folder, rows: int):
    (folder / "walk.csv").write_text("t,p\n" + "".join(f"{t / 2},{t**2}\n" for t in range(rows)))
    return folder / "walk.csv"


def test_a_slow_clock_leads_back_through_that_of_the_reading(slowly, tmp_path):
    """Rows 1, 3, ..., 23 of 25 are frames, and windows of four of them stand at rows 7, 11, 15, 19, 23."""
    reading = Reading(time_column="t", skip=1, every=2)
    (found,) = views.seen(tables.read(walk(tmp_path, 25), reading), reading)
    assert found.columns == ("mean", "spread") and found.x[0, 0] == np.mean([1, 9, 25, 49])
    assert found.rows.tolist() == [7, 11, 15, 19, 23] and found.times.tolist() == [3.5, 5.5, 7.5, 9.5, 11.5]
    back = in_rows(found, np.arange(5))
    assert back.labels.tolist() == [0] * 8 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 5
    assert back.rows.tolist() == list(range(25)) and back.times.tolist() == [t / 2 for t in range(25)]


def test_a_slow_clock_is_kept_and_asked_of_new_files(slowly, tmp_path):
    reading = Reading(time_column="t")
    found = views.seen(tables.read(walk(tmp_path, 25), reading), reading)
    kept = tables.remembered(reading, found)
    assert kept.step == 1.0
    views.seen(tables.read(walk(tmp_path, 12), kept), kept)
    other = replace(kept, step=0.5)
    with pytest.raises(InputError, match="the model was fitted to frames every"):
        views.seen(tables.read(walk(tmp_path, 12), other), other)


def test_columns_are_chosen_from_what_the_view_made(slowly, tmp_path):
    reading = Reading(time_column="t", columns=("spread",))
    (found,) = api.to_series(walk(tmp_path, 25), reading)
    assert found.columns == ("spread",) and found.x.shape == (11, 1)


@pytest.mark.slow
def test_regimes_of_slow_frames_have_the_length_of_the_file(slowly, tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{take}.csv" for take in range(3)]
    for path in paths:
        np.savetxt(
            path, rng.normal(size=(121, 1)) * np.repeat([1, 5, 1], [40, 40, 41])[:, None], header="p", comments=""
        )
    fitted = swerve.fit(paths, 2, model="arhmm", settings=SETTINGS)
    series = api.to_series(paths, fitted.reading)
    for one, found in zip(series, fitted.segment(series), strict=True):
        assert len(one) == 59 and len(found.labels) == 121
