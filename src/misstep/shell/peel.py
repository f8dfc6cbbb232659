from .model import Script
from .scanner import parse


def scan(text: str) -> Script:
    return parse(text, constants=True)
