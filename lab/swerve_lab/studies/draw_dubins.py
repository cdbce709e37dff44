"""Draws docs/images/dubins-video.png: python -m swerve_lab.studies.draw_dubins"""

from pathlib import Path

from swerve.report import figures
from swerve_lab.boards import dubins_video
from swerve_lab.boards.board import Board

PICTURE = Path("docs") / "images" / "dubins-video.png"
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
