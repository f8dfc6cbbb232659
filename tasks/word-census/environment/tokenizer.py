"""The tokenizer of the archive: pieces(text) gives the pieces in order."""

import re
import unicodedata

_PIECE = re.compile(r"[^\W\d_]{1,6}|\d|[^\s\w]+|_+")


def pieces(text):
    return _PIECE.findall(unicodedata.normalize("NFKD", text.casefold()))
