"""Who a command runs as, by the names that a root's own files know."""

from __future__ import annotations

from dataclasses import dataclass

from misstep.sandbox.base import SandboxError


@dataclass(frozen=True)
class User:
    """Who a command runs as."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    name: str = "root"
    home: str = "/root"


def look_up(key: str, files: str) -> User:
    """A user by `name`, `number`, or either with `:group`, as Docker has it.

    Args:
        files: the lines of /etc/passwd and /etc/group.

    Raises:
        SandboxError: there is none of that name.
    """
    name, _, group = key.partition(":")
    people = [row for line in files.splitlines() if len(row := line.split(":")) == 7]
    bands = [row for line in files.splitlines() if len(row := line.split(":")) == 4]
    person = next((row for row in people if name in (row[0], row[2])), None)
    if person is None and not name.isdecimal():
        raise SandboxError(f"there is no user {name} in the sandbox")
    uid, gid = (int(person[2]), int(person[3])) if person else (int(name), 0)
    if group:
        band = next((row for row in bands if group in (row[0], row[2])), None)
        if band is None and not group.isdecimal():
            raise SandboxError(f"there is no group {group} in the sandbox")
        gid = int(band[2]) if band else int(group)
    others = tuple(int(row[2]) for row in bands if person and person[0] in row[3].split(","))
    return User(uid, gid, (gid, *others), person[0] if person else name, person[5] if person else "/")
