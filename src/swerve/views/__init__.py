"""What a model reads of a recording: its frames as they are, or something made of them. Knows no model."""
