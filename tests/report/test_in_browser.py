"""The page as a person uses it, in headless Chromium."""

import time
from dataclasses import replace

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from pages import EVIL, poses, recording, stays, videos, walks

from swerve.report.page import write_page
from swerve.types import Recording

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page in")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def walk_page(folder):
    x = np.random.default_rng(2).standard_normal((300, 2)).cumsum(axis=0)
    x[40:60, 1] = np.nan
    first = recording(x, name="first", truth=stays(300), columns=("height", "speed"), times=np.arange(300) / 10)
    second = replace(first, recording=replace(first.recording, name="second"))
    return write_page(folder / "walk.html", title="Walks", recordings=[first, second], repeat=[("Again", "swerve fit")])


@pytest.fixture
def walk(browser, walk_page):
    browser.open(walk_page)
    yield browser
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def view(browser) -> tuple[float, float]:
    lines = browser.ask("({...document.getElementById('lines').dataset})")
    return float(lines["from"]), float(lines["to"])


def pixels(browser, canvas: str) -> str:
    return browser.ask(f"document.getElementById({canvas!r}).toDataURL()")


def wheel(browser, x, y, delta, control=True):
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta, modifiers=2 if control else 0)
    deadline = time.monotonic() + 0.5
    before = view(browser)
    while view(browser) == before and time.monotonic() < deadline:
        browser.settle()


def test_it_renders(walk):
    assert walk.ask("document.querySelectorAll('.card[data-regime]').length") == 3
    assert walk.ask("[...document.querySelectorAll('#recording option')].map(o => o.textContent)") == [
        "first",
        "second",
    ]
    assert view(walk) == (0, 300)
    assert len(pixels(walk, "lines")) > 3000 and len(pixels(walk, "figure")) > 3000
    assert walk.ask("document.getElementById('notes').children.length") == 0


def test_it_zooms_and_pans(walk):
    box = walk.place("#lines")
    middle, y = box["x"] + box["width"] / 2, box["y"] + 80
    wheel(walk, middle, y, -240)
    low, high = view(walk)
    assert 130 < high - low < 140 and abs((low + high) / 2 - 150) < 1
    walk.drag(middle, y, middle + box["width"] / 10, y)
    assert view(walk)[0] == pytest.approx(low - (high - low) / 10, abs=0.3)
    walk.drag(box["x"] + box["width"] / 3, box["y"] + 10, box["x"] + 2 * box["width"] / 3, box["y"] + 10)
    assert view(walk) == pytest.approx((100, 200), abs=0.5)
    walk.press("0")
    assert view(walk) == (0, 300)


def test_the_wheel_alone_scrolls_the_page_until_the_timeline_is_clicked(walk):
    box = walk.place("#lines")
    x, y = box["x"] + 50, box["y"] + 80
    wheel(walk, x, y, 100, control=False)
    assert view(walk) == (0, 300)
    box = walk.place("#lines")
    walk.click(box["x"] + 50, box["y"] + 80)
    wheel(walk, box["x"] + 50, box["y"] + 80, -100, control=False)
    assert view(walk)[1] - view(walk)[0] < 299


def test_keys_move_the_marker_and_zoom(walk):
    walk.ask("document.getElementById('lines').focus()")
    walk.press("ArrowRight")
    walk.press("ArrowRight")
    assert walk.ask("document.getElementById('lines').dataset.cursor") == "2"
    walk.press("PageDown")
    assert walk.ask("document.getElementById('readout').textContent") == "time 2 (frame 20): regime 1, 90 % sure"
    walk.press("+")
    low, high = view(walk)
    assert high - low == pytest.approx(200)
    walk.press("-")
    walk.press("End")
    assert walk.ask("document.getElementById('scrub').value") == "299"


def test_hovering_shows_values(walk):
    box = walk.place("#lines")
    walk.mouse("mouseMoved", box["x"] + box["width"] * 50.5 / 300, box["y"] + 80)
    walk.settle()
    lines = walk.ask("[...document.getElementById('tip').children].map(e => e.textContent)")
    assert lines[:3] == ["time 5 (frame 50)", "regime 2, 90 % sure", "truth: regime 2"]
    assert lines[3].startswith("height: ") and lines[4] == "speed: missing"
    walk.mouse("mouseMoved", 5, 5)
    walk.settle()
    assert walk.ask("document.getElementById('tip').hidden")


def test_another_recording_and_the_next_stay_of_a_regime(walk):
    walk.ask("(r => { r.value = 1; r.dispatchEvent(new Event('change')) })(document.getElementById('recording'))")
    walk.ask("document.querySelector('[data-next=\"2\"]').click()")
    walk.settle()
    assert walk.ask("document.getElementById('lines').dataset.cursor") == "40"
    assert walk.ask("document.getElementById('recording').value") == "1"


def test_every_choice_draws_something_else(walk):
    for name in ("expected", "probabilities", "map"):
        before = pixels(walk, "lines")
        walk.ask(f"document.getElementById('show-{name}').click()")
        walk.settle()
        assert pixels(walk, "lines") != before
    before = pixels(walk, "lines")
    walk.ask("document.querySelector('#channel-list input').click()")
    walk.settle()
    assert pixels(walk, "lines") != before


def test_it_plays(walk):
    walk.ask("document.getElementById('play').click()")
    deadline = time.monotonic() + 10
    while walk.ask("Number(document.getElementById('lines').dataset.cursor)") < 3 and time.monotonic() < deadline:
        walk.settle()
    walk.ask("document.getElementById('play').click()")
    assert 3 <= walk.ask("Number(document.getElementById('scrub').value)") < 299
    assert walk.ask("document.getElementById('play').textContent") == "Play"


@pytest.mark.parametrize("make", [poses, videos], ids=["pose", "video"])
def test_scrubbing_moves_the_figure_and_the_marker_alike(browser, folder, make):
    browser.open(write_page(folder / "stage.html", title="Stage", recordings=make()))
    before = pixels(browser, "figure")
    browser.ask("(s => { s.value = 25; s.dispatchEvent(new Event('input')) })(document.getElementById('scrub'))")
    browser.settle()
    assert browser.ask("document.getElementById('lines').dataset.cursor") == "25"
    scrubbed = pixels(browser, "figure")
    assert scrubbed != before
    box = browser.place("#lines")
    browser.click(box["x"] + box["width"] * 0.75, box["y"] + 60)
    assert int(browser.ask("document.getElementById('figure').dataset.frame")) > 25
    assert pixels(browser, "figure") != scrubbed
    assert browser.complaints == []


def test_a_pose_can_be_turned(browser, folder):
    browser.open(write_page(folder / "turn.html", title="Turn", recordings=poses()))
    seen = [pixels(browser, "figure")]
    for view_name in ("front", "side", "above"):
        browser.ask(f"document.querySelector('[data-view={view_name}]').click()")
        browser.settle()
        seen.append(pixels(browser, "figure"))
    box = browser.place("#figure")
    browser.drag(box["x"] + 100, box["y"] + 100, box["x"] + 160, box["y"] + 80)
    seen.append(pixels(browser, "figure"))
    assert len(set(seen)) == len(seen) and browser.complaints == []


def test_names_do_not_run(browser, folder):
    columns = (EVIL, f'"{EVIL}', "constructor")
    recordings = [
        replace(one, recording=replace(one.recording, name=f"{EVIL}{i}", columns=columns))
        for i, one in enumerate(walks())
    ]
    page = write_page(
        folder / "evil.html",
        title=EVIL,
        summary=[(EVIL, EVIL)],
        warnings=[(EVIL, EVIL)],
        recordings=recordings,
        names=[EVIL, "", "\u2028"],
        scores={EVIL: {EVIL: EVIL}},
        repeat=[(EVIL, EVIL)],
        config_text=EVIL,
    )
    browser.open(page)
    box = browser.place("#lines")
    browser.mouse("mouseMoved", box["x"] + 10, box["y"] + 80)
    browser.settle()
    assert browser.ask("window.hacked") is None
    assert browser.ask("document.scripts.length") == 2 and browser.ask("document.images.length") == 0
    assert browser.ask("document.querySelector('#recording option').textContent") == f"{EVIL}0"
    assert EVIL in browser.ask("document.getElementById('tip').textContent")
    assert browser.ask("document.querySelector('h1').textContent") == EVIL
    assert browser.complaints == [] and browser.requests == [page.as_uri()[:100]]


def test_the_browser_refuses_any_other_script(walk):
    """Even if markup slipped through: the policy allows the page's own script alone."""
    walk.ask(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked = 1'}))"
    )
    walk.ask("document.body.insertAdjacentHTML('beforeend', '<p onclick=\"window.hacked = 1\" id=bait>x</p>')")
    walk.ask("document.getElementById('bait').click()")
    assert walk.ask("window.hacked") is None
    assert walk.complaints and all("Content Security Policy" in text for text in walk.complaints)
    walk.complaints.clear()


def test_a_hundred_thousand_frames_are_drawn_at_once(browser, folder):
    labels = stays(100_000, 37)
    x = np.random.default_rng(3).standard_normal((100_000, 3)).cumsum(axis=0)
    browser.open(write_page(folder / "long.html", title="Long", recordings=[recording(x, labels=labels)]))
    assert view(browser) == (0, 100_000)
    browser.ask("window.began = performance.now(); document.getElementById('in').click()")
    browser.settle()
    assert browser.ask("performance.now() - window.began") < 1500  # milliseconds, on a busy machine
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(browser, walk_page, dark):
    browser.open(walk_page, width=360, height=740, dark=dark, mobile=True)
    assert browser.ask("document.documentElement.scrollWidth") <= 360
    assert browser.complaints == []


def test_odd_recordings_are_shown_without_complaint(browser, folder):
    for i, x in enumerate((np.full((30, 2), np.nan), np.ones((1, 1)), np.ones((25, 3)))):
        browser.open(write_page(folder / f"odd{i}.html", title="Odd", recordings=[recording(x)]))
        assert browser.complaints == [] and view(browser)[1] == len(x)


def test_a_tracked_point_cloud_without_bones(browser, folder):
    (dance,) = poses()
    series: Recording = dance.recording
    loose = replace(series.skeleton, parents=(-1,) * 4)
    x = series.x.copy()
    x[10:30, :3] = np.nan
    page = write_page(
        folder / "loose.html", title="x", recordings=[replace(dance, recording=replace(series, x=x, skeleton=loose))]
    )
    browser.open(page)
    assert browser.complaints == [] and len(pixels(browser, "figure")) > 1000
