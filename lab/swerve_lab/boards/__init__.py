"""Synthetic recordings with known regimes, published ones, and oracles that know how boards were made."""
