"""What a shell command is and does: a tolerant scanner, wrapper peeling and effects. Standard library only.

`parse(text)` gives the simple commands as they are written: `sudo bash -c "make &"` is one command,
`sudo`. `scan(text)` gives what runs: `make`, in the background, with wrappers ('sudo', 'bash -c').
`effects_of(scan(text))` says what those commands do.
"""

from .effects import effects_of
from .model import Block, Command, Effect, Redirect, Script
from .peel import scan
from .scanner import parse

__all__ = ["Block", "Command", "Effect", "Redirect", "Script", "effects_of", "parse", "scan"]
