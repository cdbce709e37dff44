"""Studies: what one question needs, run as `python -m swerve_lab.studies.NAME`."""
