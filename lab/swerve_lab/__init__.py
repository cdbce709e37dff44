"""Boards, systems of others, experiments and studies: what Swerve is measured with."""
