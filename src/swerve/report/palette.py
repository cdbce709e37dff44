"""Colours. A regime keeps its colour by index, in every figure and for every K."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb

INK = "#1f2530"
MUTED = "#667085"
GRID = "#e7eaf0"
GAP = "#eceef2"
BLUE = "#0072b2"
OBSERVED = "#9fc0dc"
ORANGE = "#e07b00"
PALE_BLUE = "#9dbfd8"
DARK_PAGE = "#1b2029"  # the dark card of style.css

# Okabe and Ito's colours for colour-blind readers, with a blue dark enough to differ from the green under
# tritanopia, and a yellow deepened to be seen on white, but no further: beyond this it nears the orange.
_HUES = ("#0060a4", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#e3d026", "#3c3c44")
# Later rounds repeat the hues darker (negative) or lighter (positive): lightness is visible to everyone.
_TONES = (0.0, -0.48, 0.55, -0.72, 0.3, -0.25)


def _ramp(name: str, *colors: str) -> Colormap:
    return LinearSegmentedColormap.from_list(name, colors).with_extremes(bad="#d0d5dd")


# As in the paper's figures, lighter means more probable: truth in green, posterior in blue.
TRUTH_MAP = _ramp("truth", "#0b3d2e", "#3f9b78", "#eefaf3")
POSTERIOR_MAP = _ramp("posterior", "#0a2c52", "#3d86c0", "#eef6fd")
SHARE_MAP = _ramp("share", "#f8fafc", "#7fb2d9", "#0a4a7d")
DEVIATION_MAP = _ramp("deviation", "#0a4a7d", "#7fb2d9", "#ffffff", "#f0ae6c", "#a04a00")


def regime_colors(regimes: Int[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape 3"]:
    """Red, green and blue in 0..1 of every regime index; a negative index means "unknown" and is grey."""
    table = np.array([_color(index) for index in range(max(1, int(regimes.max(initial=0)) + 1))])
    colors = table[np.maximum(regimes, 0)]
    return np.where((regimes < 0)[..., None], np.array(to_rgb(GAP)), colors)


def _color(index: int) -> np.ndarray:
    tone = _TONES[index // len(_HUES) % len(_TONES)]
    target = np.ones(3) if tone > 0 else np.zeros(3)
    hue = np.array(to_rgb(_HUES[index % len(_HUES)]))
    return hue + abs(tone) * (target - hue)


def hex_colors(regimes: int, *, dark: bool = False) -> list[str]:
    """The colours of K regimes as a page writes them; on a dark page, those that would sink into it are lifted."""
    colors = regime_colors(np.arange(regimes))
    return [to_hex(tuple((_lifted(color) if dark else color).tolist())) for color in colors]


def _lifted(color: np.ndarray) -> np.ndarray:
    """Mixed with white until it stands out from a dark page as a graphic should: contrast 3 to 1."""
    mixes = color + np.linspace(0, 1, 21)[:, None] * (1 - color)
    contrast = (_luminance(mixes) + 0.05) / (_luminance(np.array([to_rgb(DARK_PAGE)])) + 0.05)
    return mixes[np.argmax(contrast >= 3)]


def _luminance(colors: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    """Of sRGB, as WCAG 2 defines it."""
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
