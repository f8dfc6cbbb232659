"""Effects on repositories."""

from __future__ import annotations

import re

from .context import Context, Reader, path_words, stdout_goes

CHANGES = frozenset(
    [
        "add",
        "commit",
        "push",
        "pull",
        "fetch",
        "merge",
        "rebase",
        "reset",
        "checkout",
        "switch",
        "restore",
        "clean",
        "stash",
        "branch",
        "tag",
        "rm",
        "mv",
        "revert",
        "cherry-pick",
        "am",
        "apply",
        "init",
        "clone",
        "worktree",
        "update-ref",
        "gc",
        "prune",
        "filter-branch",
        "filter-repo",
        "reflog",
        "submodule",
        "notes",
        "update-index",
        "read-tree",
        "symbolic-ref",
        "replace",
        "bisect",
        "sparse-checkout",
        "lfs",
        "subtree",
        "remote",
        "config",
    ]
)
CLONE_VALUES = ("--branch", "--depth", "--origin", "--reference", "--upload-pack", "--config", "--jobs", "--filter", "--shallow-since",
                "--separate-git-dir", "--template", "--server-option")  # fmt: skip
READ_ONLY_SUBVERBS = {"stash": ("list", "show"), "worktree": ("list",), "reflog": ("", "show"), "remote": ("", "-v", "show", "get-url"),
                      "notes": ("", "list", "show"), "submodule": ("", "status"), "bisect": ("log",), "lfs": ("ls-files", "status", "env"),
                      "config": ()}  # fmt: skip


def git(x: Context) -> None:
    argv = x.argv
    k = 1
    folder = ""
    while k < len(argv) and argv[k][:1] == "-":
        if argv[k] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            if argv[k] == "-C" and k + 1 < len(argv):
                folder = argv[k + 1]
            k += 2
        else:
            k += 1
    if k >= len(argv):
        return
    verb = argv[k]
    rest = argv[k + 1 :]
    before = rest[: rest.index("--")] if "--" in rest else rest
    after = rest[rest.index("--") + 1 :] if "--" in rest else []
    flags = {a for a in before if a[:1] == "-"}
    letters = {c for a in flags if a[1:2] != "-" for c in a[1:]}
    words = [a for a in before if a[:1] != "-"]
    where = {"folder": folder} if folder else {}
    if verb == "grep":
        x.add("search", after, pattern=words[0] if words else "", **where)
        return
    if verb == "show":
        shown = [w.partition(":")[2] for w in words if ":" in w]
        if shown:
            x.add(
                "read",
                shown,
                to=stdout_goes(x.command),
                partial=False,
                raw=True,
                through=tuple(d.name for d in x.downstream),
            )
        return
    if verb == "diff":
        if "--no-index" in flags:
            x.add("compare", [*words, *after], how="diff")
        return
    if verb in ("ls-files", "ls-tree"):
        x.add("search", path_words(words), pattern="", **where)
        return
    if verb in ("ls-remote",):
        x.add("probe", target=words[0] if words else "origin", local=False)
        return
    if verb == "daemon":
        from .effects_serve import serve

        serve(x, "--detach" in flags, launcher="git daemon")
        return
    if verb not in CHANGES:
        return
    sub = words[0] if words else ""
    if verb in READ_ONLY_SUBVERBS and sub in READ_ONLY_SUBVERBS[verb] and not (verb == "stash" and not sub):
        return
    if (
        verb == "branch"
        and not (flags - {"-a", "-r", "-v", "-vv", "--all", "--list", "--show-current", "--merged", "--no-merged"})
        and not words
    ):
        return
    if verb == "branch" and flags & {"--list", "--show-current", "-l", "--contains", "--format", "-a", "-r", "--sort"}:
        return
    if verb == "tag" and (not words or flags & {"-l", "--list", "-n", "--sort", "--contains", "--points-at", "-v"}):
        return
    if verb == "config" and (len(words) < 2 or flags & {"--get", "--list", "-l", "--get-all", "--get-regexp"}):
        return
    if (
        verb in ("clean", "add", "rm", "mv", "prune", "push", "fetch", "commit", "merge")
        and flags & {"-n", "--dry-run"}
        and verb not in ("merge", "fetch")
    ) and verb != "commit":
        return
    if verb == "apply" and flags & {"--check", "--stat", "--numstat", "--summary"}:
        return
    destructive = False
    paths: list[str] = []
    if verb == "checkout":
        creates = bool(letters & {"b", "B"}) or "--orphan" in flags
        if after:
            paths, destructive = after, True
        elif (
            not creates
            and words
            and (words[-1] in (".", "*", ":/", "./") or (len(words) > 1 and not flags & {"-t", "--track"}))
        ):
            paths, destructive = (words[1:] or words), True
        elif "--ours" in flags or "--theirs" in flags:
            paths, destructive = words, True
        elif letters & {"f"} or "--force" in flags:
            destructive = True
        elif (
            not creates
            and len(words) == 1
            and re.search(r"\.\w{1,5}$", words[0])
            and not re.fullmatch(r"v?\d+(\.\d+)*", words[0])
        ):
            paths, destructive = words, True  # `git checkout app.py`: a file, not a branch
    elif verb == "restore":
        paths = after or words
        destructive = not ("--staged" in flags or "S" in letters) or "--worktree" in flags or "W" in letters
    elif verb == "reset":
        destructive = "--hard" in flags
        paths = after
    elif verb == "clean":
        destructive = "f" in letters or "--force" in flags
        paths = after or words
        if not destructive:
            return
    elif verb == "push":
        destructive = (
            "f" in letters
            or "d" in letters
            or bool(flags & {"--force", "--delete", "--mirror", "--prune"})
            or any(a.startswith(("--force-with-lease", "--force-if-includes")) for a in flags)
            or any(w[:1] in ":+" and len(w) > 1 for w in words[1:])
        )
    elif verb == "branch":
        destructive = "D" in letters or (
            bool(letters & {"d", "M", "f", "C"}) and ("--force" in flags or "f" in letters or "M" in letters)
        )
        destructive = destructive or ("--delete" in flags and "--force" in flags)
    elif verb == "tag":
        destructive = "d" in letters or "--delete" in flags or "f" in letters
    elif verb == "stash":
        destructive = sub in ("drop", "clear")
    elif verb == "update-ref":
        destructive = "d" in letters
    elif verb in ("filter-branch", "filter-repo"):
        destructive = True
    elif verb == "reflog":
        destructive = sub in ("expire", "delete")
    elif verb in ("gc", "prune"):
        destructive = verb == "prune" or any(a.startswith("--prune=now") or a == "--prune=all" for a in flags)
    elif verb == "rm":
        paths = after or words
        destructive = "--cached" not in flags
        if destructive:
            x.add("delete", paths, recursive="r" in letters, **where)
    elif verb == "mv":
        paths = words[:-1]
        x.add("move", paths, dest=words[-1] if words else "", **where)
    elif verb == "switch":
        destructive = "f" in letters or bool(flags & {"--force", "--discard-changes"}) or "C" in letters
    elif verb == "worktree":
        destructive = sub == "remove" and ("--force" in flags or "f" in letters)
    elif verb in ("add", "apply", "am"):
        paths = after or words
    elif verb == "commit":
        paths = after
    elif verb == "clone":
        given = Context(x.command, argv[k:], [], 0).operands("boujc", CLONE_VALUES)
        x.add("download", given[1:2], url=given[0] if given else "")
    if verb == "apply":
        x.add("write", (), append=False, in_place=True, patch=tuple(paths), **where)
    info = {"verb": verb if verb not in ("stash", "worktree", "reflog", "bisect", "submodule", "remote") or not sub else f"{verb} {sub}",
            "destructive": destructive, **where}  # fmt: skip
    if verb == "push" and words:
        info["remote"] = words[0]
    if verb == "commit":
        info["amend"] = "--amend" in flags
        info["no_verify"] = "--no-verify" in flags or "n" in {
            c for a in flags if re.fullmatch(r"-[a-zA-Z]+", a) for c in a.split("m")[0][1:]
        }
    if verb == "push":
        info["no_verify"] = "--no-verify" in flags
    x.add("vcs", paths, **info)
    _waits(x, verb, flags, letters, words)


def _waits(x: Context, verb: str, flags: set[str], letters: set[str], words: list[str]) -> None:
    """Verbs that open an editor or ask."""
    if not x.waits:
        return
    env = x.command.env
    if any(n in env for n in ("GIT_EDITOR", "EDITOR", "VISUAL", "GIT_SEQUENCE_EDITOR")) or any(
        "editor=" in a.lower() for a in x.argv
    ):
        return
    long = {f.partition("=")[0] for f in flags}
    if verb == "rebase" and ("i" in letters or "--interactive" in flags):
        x.add("interactive", why="git rebase -i opens an editor")
    elif (
        verb in ("add", "checkout", "reset", "restore", "stash", "commit")
        and ("p" in letters or "--patch" in flags)
        and not x.fed
    ):
        x.add("interactive", why=f"git {verb} -p asks hunk by hunk")
    elif verb in ("add", "clean") and ("i" in letters or "--interactive" in flags) and not x.fed:
        x.add("interactive", why=f"git {verb} -i asks")
    elif verb == "commit":
        given = long & {
            "--message",
            "--file",
            "--no-edit",
            "--reuse-message",
            "--fixup",
            "--squash",
            "--template",
            "--dry-run",
            "--help",
        }
        if not given and not letters & {"m", "F", "C", "h"}:
            x.add("interactive", why="git commit without a message opens an editor")
    elif (
        verb == "revert"
        and not long & {"--no-edit", "--no-commit", "--abort", "--continue", "--quit", "--skip"}
        and "n" not in letters
    ):
        x.add("interactive", why="git revert opens an editor")
    elif verb == "tag" and letters & {"a", "s"} and not letters & {"m", "F"} and not long & {"--message", "--file"}:
        x.add("interactive", why="git tag -a without a message opens an editor")


def hg(x: Context) -> None:
    words = x.operands("mRr")
    verb = words[0] if words else ""
    if x.name == "svn":
        if verb in (
            "commit",
            "ci",
            "add",
            "delete",
            "rm",
            "revert",
            "update",
            "up",
            "merge",
            "checkout",
            "co",
            "switch",
            "mv",
        ):
            x.add("vcs", words[1:], verb=verb, destructive=verb == "revert")
    elif verb in (
        "commit",
        "add",
        "remove",
        "rm",
        "revert",
        "update",
        "up",
        "merge",
        "push",
        "pull",
        "purge",
        "strip",
        "rebase",
    ):
        destructive = verb in ("revert", "purge", "strip") or (verb in ("update", "up") and x.has("-C", "--clean"))
        x.add("vcs", words[1:], verb=verb, destructive=destructive)


READERS: dict[str, Reader] = {"git": git, "hg": hg, "svn": hg}
