"""Where words for a person go."""

from rich.console import Console

console = Console()
errors = Console(stderr=True)


def note(message: str) -> None:
    """A line of its own."""
    console.print(f"  {message}", highlight=False)


def warn(problem: str, remedy: str) -> None:
    """What may be wrong, and what to do about it."""
    errors.print(f"Warning: {problem} {remedy}", style="yellow", highlight=False)
