"""Where the guard keeps what it must remember. All of it is the user's own: folders 0700, files 0600."""

from __future__ import annotations

import os

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def home() -> str:
    """`$MISSTEP_HOME`, else `misstep` in the user's state folder (`$XDG_STATE_HOME`, `~/.local/state`).

    A relative `$MISSTEP_HOME` is one below the user's home: hooks run in any folder. Raises OSError where the user has none.
    """
    given = os.environ.get("MISSTEP_HOME")
    if given:
        if given.startswith("/"):
            return given
        return _below_home(given[2:] if given[:2] in ("~/", "./") else given)
    state = os.environ.get("XDG_STATE_HOME")
    if not state or not state.startswith("/"):
        state = _below_home(".local/state")
    return state + "/misstep"


def _below_home(path: str) -> str:
    found = os.path.expanduser("~/" + path)
    if not found.startswith("/"):  # no $HOME, or a relative one, and a user that the system does not know
        raise FileNotFoundError(
            2, "no home folder is known: set $HOME or $MISSTEP_HOME to one, with its whole path", "~"
        )
    return found


def guard_home() -> str:
    return home() + "/guard"


def make_folder(path: str) -> None:
    """Make a folder of the guard's, and whatever is missing above it: the user's alone, by any umask. Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_folder(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def settings_file() -> str:
    """The mode and the arm, as `misstep guard mode` writes them."""
    return guard_home() + "/settings.json"


def portfolio_file() -> str:
    """The portfolio in the form that hooks read: derived, may be deleted."""
    return guard_home() + "/portfolio.json"


def faults_file() -> str:
    """What went wrong outside any session (a payload that cannot be read)."""
    return guard_home() + "/faults.jsonl"


def session_folder(host: str, session: str, agent: str = "") -> str:
    """The folder of one session, of a sub-agent inside its parent's."""
    folder = f"{guard_home()}/sessions/{host}/{_name(session)}"
    return f"{folder}/agents/{_name(agent)}" if agent else folder


def _name(id: str) -> str:
    """An id as one file name. What is no plain name becomes its hash: an id never leaves the folder."""
    if 0 < len(id) <= 100 and id[0] not in "._-" and _PLAIN.issuperset(id):
        return id
    return "x-" + digest(id.encode("utf-8", "surrogatepass"))


def digest(data: bytes) -> str:
    """16 hexadecimal digits that tell two texts apart (SipHash: quick, and without an import; no security rests on it)."""
    import _imp

    return _imp.source_hash(0x6D697373, data).hex()
