"""Pure judgement: numbers and labels in, a verdict out. Fits nothing."""
