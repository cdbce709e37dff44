"""Pixels inside the page."""

from base64 import b64encode
from io import BytesIO

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from swerve.report.markup import Markup, tag


def image_tag(pixels: Float[np.ndarray, "H W"], description: str) -> Markup:
    """An image in shades of grey, from its darkest to its brightest pixel."""
    content = BytesIO()
    imsave(content, pixels, cmap="gray", format="png")
    return png_tag(content.getvalue(), description)


def png_tag(content: bytes, description: str) -> Markup:
    """A PNG file inside the page."""
    return tag("img", alt=description, src=f"data:image/png;base64,{b64encode(content).decode('ascii')}")
