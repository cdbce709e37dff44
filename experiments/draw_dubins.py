"""Draws docs/images/dubins-video.png: python experiments/draw_dubins.py"""

from pathlib import Path

from swerve.data import dubins_video
from swerve.data.board import Board
from swerve.report import figures

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "dubins-video.png"
SHOWN, SEED = 5, 0


def main():
    narrow, wide = dubins_video.generate(SHOWN, seed=SEED), dubins_video.generate_wide(SHOWN, seed=SEED)
    rows = {
        "dubins: turns narrower than a pixel": images(narrow),
        "dubins-wide: turns ten times wider": images(wide),
    }
    figures.save(figures.overlays(rows), PICTURE)


def images(board: Board):
    return board.x.reshape(*board.x.shape[:2], *dubins_video.IMAGE)


if __name__ == "__main__":
    main()
