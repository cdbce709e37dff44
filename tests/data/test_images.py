"""Folders of pictures as video."""

import numpy as np
import pytest
from PIL import Image

from swerve.data.images import folders_of_frames, read_frames
from swerve.errors import InputError


def picture(path, grey: int, size: tuple[int, int] = (4, 3), mode: str = "L"):
    path.parent.mkdir(exist_ok=True)
    Image.new(mode, size, grey if mode == "L" else (grey,) * len(mode)).save(path)


def test_frames_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 9, 1):
        picture(tmp_path / "bee" / f"frame-{number}.png", number)
    (tmp_path / "bee" / "notes.txt").write_text("not a picture")
    bee = read_frames(tmp_path / "bee")
    assert bee.name == "bee" and bee.image == (3, 4) and bee.x.shape == (3, 12) and bee.x.dtype == np.float32
    np.testing.assert_allclose(bee.x[:, 0] * 255, [1, 9, 10], rtol=1e-6)
    assert bee.columns[-1] == "pixel-2-3"


def test_colours_become_grey_and_sixteen_bits_are_kept(tmp_path):
    picture(tmp_path / "a" / "1.jpg", 100, mode="RGB")
    picture(tmp_path / "a" / "2.png", 100, mode="RGBA")
    np.testing.assert_allclose(read_frames(tmp_path / "a").x, 100 / 255, atol=0.005)
    (tmp_path / "b").mkdir()
    Image.fromarray(np.full((3, 4), 65535 // 4, np.uint16)).save(tmp_path / "b" / "1.png")
    np.testing.assert_allclose(read_frames(tmp_path / "b").x, 0.25, atol=1e-4)


def test_a_folder_of_folders_is_several_recordings(tmp_path):
    for name in ("take-10", "take-2", "empty"):
        (tmp_path / name).mkdir()
    for name in ("take-10", "take-2"):
        picture(tmp_path / name / "1.png", 0)
    assert [one.name for one in folders_of_frames(tmp_path)] == ["take-2", "take-10"]
    assert folders_of_frames(tmp_path / "take-2") == [tmp_path / "take-2"]
    assert folders_of_frames(tmp_path / "empty") == []


def test_refusals(tmp_path):
    picture(tmp_path / "a" / "1.png", 0)
    picture(tmp_path / "a" / "2.png", 0, size=(5, 3))
    with pytest.raises(InputError, match=r"2.png is 5 x 3 pixels but 1.png is 4 x 3"):
        read_frames(tmp_path / "a")
    noise = np.random.default_rng(0).integers(0, 255, (20, 20), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    whole = (tmp_path / "noise.png").read_bytes()
    for broken in (b"", b"text", whole[:20], whole[: len(whole) // 2]):
        (tmp_path / "a" / "1.png").write_bytes(broken)
        with pytest.raises(InputError, match=r"1.png is not a picture that can be read"):
            read_frames(tmp_path / "a")
