"""All figures by name. Each takes arrays and returns a `matplotlib.figure.Figure`; `save` writes a PNG."""

from swerve.report.canvas import png_bytes, save
from swerve.report.choosing import choosing
from swerve.report.forecast import forecast
from swerve.report.marginals import stacked_marginals
from swerve.report.palette import regime_colors
from swerve.report.recordings import marginals_beside_truth, reconstruction, ribbon
from swerve.report.regimes import regime_cards
from swerve.report.scores import score_bars
from swerve.report.training import History, learning_story, training_curves
from swerve.report.video import overlays

__all__ = [
    "History",
    "choosing",
    "forecast",
    "learning_story",
    "marginals_beside_truth",
    "overlays",
    "png_bytes",
    "reconstruction",
    "regime_cards",
    "regime_colors",
    "ribbon",
    "save",
    "score_bars",
    "stacked_marginals",
    "training_curves",
]
