"""What a shell command is and does: a tolerant scanner, wrapper peeling and effects. Standard library only."""

from .effects import effects_of
from .model import Command, Effect, Redirect, Script
from .scanner import scan

__all__ = ["Command", "Effect", "Redirect", "Script", "effects_of", "scan"]
