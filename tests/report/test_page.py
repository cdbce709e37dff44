import errno
import json
import os
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from pages import poses, videos, walks

from swerve.report import figures
from swerve.report.page import write_page

EVIL = "<script>alert('x')</script>\"&"
PNG = b"\x89PNG not really"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "drawn.png").write_bytes(PNG)
    figure = figures.score_bars({"ours": {"frame F1": 0.5}})
    path = write_page(
        folder / "out" / "report.html",
        title=EVIL,
        summary=[(EVIL, EVIL), ("frames", 20_000), ("F1", np.float32(0.5))],
        warnings=[(EVIL, EVIL)],
        scores={EVIL: {EVIL: 0.25, "spread": (0.5, 0.125)}, "ours": {"text": EVIL}},
        figures=[(EVIL, folder / "drawn.png"), ("bars", figure)],
        config_text=EVIL,
    )
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def test_users_words_stay_words(page):
    tags = Tags(page)
    assert not [tag for tag, _ in tags.seen if tag == "script"]
    # title, h1, summary name and value, warning, column, row, cell, caption, configuration
    assert sum(text == EVIL for text in tags.text) == 10
    assert "script-src" not in page
    assert [a["alt"] for tag, a in tags.seen if tag == "img"] == [EVIL, "bars"]


def test_the_page_holds_every_figure(page):
    pictures = [b64decode(text) for text in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert pictures[0] == PNG
    assert pictures[1].startswith(b"\x89PNG") and len(pictures) == 2
    assert b64encode(PNG).decode() in page


def test_the_page_fetches_nothing(page):
    assert "http://" not in page and "https://" not in page and "url(" not in page and "@import" not in page
    for _, attributes in Tags(page).seen:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:")


def test_numbers_are_formatted_and_missing_scores_are_dashes(page):
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert cells[:3] == ["0.250", "0.500 ± 0.125", "—"]
    assert "<dd>20,000</dd>" in page and "<dd>0.500</dd>" in page


def test_a_page_with_nothing_but_a_title_has_no_empty_sections(tmp_path):
    text = write_page(tmp_path / "bare.html", title="bare").read_text(encoding="utf-8")
    assert not re.search(r"<(h2|table|figure|aside|details|dl)\b", text)


def test_only_the_page_s_own_script_may_run(tmp_path):
    """The rest is tested in a browser (test_in_browser.py), where there is one."""
    names = [EVIL, "</script>", "<!--"]
    path = write_page(tmp_path / "page.html", title="x", recordings=walks(), names=names)
    text = path.read_text(encoding="utf-8")
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", text, flags=re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert json.loads(data)["regimes"] == names
    assert "<" not in data and "innerHTML" not in script and "eval(" not in script


def test_without_scripts_there_are_the_figures(tmp_path):
    (tmp_path / "drawn.png").write_bytes(PNG)
    page = write_page(tmp_path / "p.html", title="x", recordings=walks(), figures=[("ribbon", tmp_path / "drawn.png")])
    (shown,) = re.findall(r"<noscript>(.*?)</noscript>", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert 'alt="ribbon"' in shown


@pytest.mark.parametrize("recordings", [walks(channels=1), walks(channels=2), walks(channels=5), poses(), videos()])
def test_every_regime_in_use_has_a_card_with_a_portrait(tmp_path, recordings):
    text = write_page(tmp_path / "cards.html", title="x", recordings=recordings).read_text(encoding="utf-8")
    assert len(re.findall(r"data-regime=", text)) == 3
    portraits = re.findall(r'<div class="portrait">(.*?)</div><dl>', text, flags=re.DOTALL)
    assert len(portraits) == 3 and all(len(picture) > 200 for picture in portraits)
    assert "nan" not in re.sub(r"<script.*", "", text, flags=re.DOTALL)


def test_a_failed_page_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(FileNotFoundError):
        write_page(path, title="new", figures=[("gone", tmp_path / "gone.png")])
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_the_old_page_and_is_told_of_by_its_name(tmp_path, monkeypatch):
    def half_of_it(path, text, encoding):
        path.write_bytes(text[: len(text) // 2].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(Path, "write_text", half_of_it)
    with pytest.raises(OSError, match="No space left") as error:
        write_page(path, title="new")
    assert error.value.filename == str(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
