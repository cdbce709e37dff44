"""How good a segmentation is: label arrays in, numbers out."""
