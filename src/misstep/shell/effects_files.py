"""Effects on files: reading, searching, comparing, writing, copying, moving, deleting, downloading."""

from __future__ import annotations

import re

from .context import Context, Reader, is_file, path_words, stdout_goes

RAW_READERS = {
    # name: options that take a value
    "cat": "",
    "tac": "s",
    "nl": "bdfhilnpsvw",
    "bat": "rlHmp",
    "head": "nc",
    "tail": "ncs",
    "less": "bhjkopPtTxyz",
    "more": "n",
    "most": "",
    "sort": "kStTo",
    "uniq": "fsw",
    "cut": "bcdfs",
    "rev": "",
    "fold": "w",
    "expand": "t",
    "column": "tsco",
    "paste": "d",
    "zcat": "",
    "bzcat": "",
    "xzcat": "",
    "zstdcat": "",
    "tr": "",
}
RENDERING = {"xxd": "lscg", "hexdump": "nsef", "od": "ANjtw", "base64": "w", "strings": "net", "jq": "Lf", "yq": "", "json_pp": "",
             "pdftotext": "fl", "readelf": "", "objdump": "djM", "nm": "", "exiftool": "", "identify": "", "ffprobe": "",
             "glow": "", "column": "", "pygmentize": "lf", "xmllint": "", "csvlook": "", "hexyl": "n"}  # fmt: skip
PARTIAL = frozenset(["head", "tail"])


def read(x: Context) -> None:
    c = x.command
    name = x.name
    raw = name in RAW_READERS
    if name == "tr":
        words: list[str] = []
    else:
        words = path_words(
            x.operands(
                RAW_READERS.get(name, RENDERING.get(name, "")),
                ("--lines", "--bytes", "--line-range", "--language", "--arg", "--argjson"),
            )
        )
    if name in ("jq", "yq") and words:
        words = words[1:] if not x.has("-f", "--from-file") else words
        if x.has("--arg", "--argjson", "--args"):
            words = [w for w in words[-1:] if "/" in w or "." in w]
    if name in PARTIAL:
        words = [w for w in words if not re.fullmatch(r"[+-]?\d+", w)]
    if name == "base64" and not x.has("-d", "-D", "--decode"):
        raw = False
    if name == "base64" and x.has("-d", "-D", "--decode"):
        raw = True
    if name == "xxd" and x.has("-r"):
        raw = True
    if name in ("less", "more", "most") and stdout_goes(c) == "tty" and x.waits:
        x.add("interactive", words, why=f"{name} is a pager")
    words += [r.target for r in c.redirects if r.op == "<" and r.fd == 0 and is_file(r.target)]
    if not words:
        if name == "cat" and not x.fed and x.waits and not c.substitution and not x.wrapped("xargs", "find -exec"):
            x.add("interactive", why="cat waits for standard input")
        if not (x.wrapped("xargs") and raw):
            return
    partial = name in PARTIAL or (name == "bat" and x.has("-r", "--line-range"))
    _reading(x, words, raw, partial or any(d.name in ("head", "tail") for d in x.downstream))


def _reading(x: Context, words: list[str], raw: bool, partial: bool) -> None:
    x.add(
        "read", words, to=stdout_goes(x.command), partial=partial, raw=raw, through=tuple(d.name for d in x.downstream)
    )


def sed(x: Context) -> None:
    words = x.operands("efl", ("--expression", "--file", "--line-length"))
    in_place = any(re.match(r"-[nErsuz]*i", a) or a.startswith("--in-place") for a in x.argv[1:])
    if in_place and words[:1] == [""]:  # BSD: sed -i '' ...
        words = words[1:]
    if not x.has("-e", "--expression", "-f", "--file"):
        words = words[1:]
    words = path_words(words)
    if in_place:
        if words or x.wrapped("xargs", "find -exec"):
            x.add("write", words, append=False, in_place=True)
    elif words:
        partial = x.has("-n", "--quiet", "--silent") or any(re.search(r"\dq", a) for a in x.argv[1:])
        _reading(x, words, True, partial or any(d.name in ("head", "tail") for d in x.downstream))


def awk(x: Context) -> None:
    words = x.operands("fFvi", ("--file", "--field-separator", "--assign", "--include"))
    if not x.has("-f", "--file") and words:
        words = words[1:]
    words = [w for w in path_words(words) if not re.match(r"[A-Za-z_]\w*=", w)]
    if x.value("-i", "--include") == "inplace":
        x.add("write", words, append=False, in_place=True)
    elif words:
        _reading(x, words, True, True)


def perl(x: Context) -> None:
    """perl -pi -e ... FILES writes; perl -ne ... FILES reads."""
    flags = [a for a in x.argv[1:] if re.match(r"-[a-zA-Z0-9]", a)]
    if not any("e" in a or "E" in a for a in flags):
        return
    words = path_words(x.operands("eEIMm"))
    if any(re.match(r"-[pnlw0as]*i", a) for a in flags):
        x.add("write", words, append=False, in_place=True)
    elif words and any(re.match(r"-[lw0as]*[pn]", a) for a in flags):
        _reading(x, words, True, True)


SEARCHERS = {"grep": ("efABCmdD", ("--regexp", "--file", "--include", "--exclude", "--max-count", "--context", "--exclude-dir")),
             "rg": ("efgtTABCmMjrd", ("--glob", "--type", "--regexp", "--context", "--max-count", "--max-depth")),
             "ag": ("ABCGm", ("--ignore", "--depth")), "ack": ("ABCm", ("--type",))}  # fmt: skip


def search(x: Context) -> None:
    name = x.name
    if name in SEARCHERS:
        short, long = SEARCHERS[name]
        words = x.operands(short, long)
        pattern = x.value("-e", "--regexp")
        if pattern is None and not x.has("-f", "--file") and words:
            pattern, words = words[0], words[1:]
        if x.command.piped_in and not words and not x.has("-r", "-R", "--recursive"):
            return
        words += [r.target for r in x.command.redirects if r.op == "<" and r.fd == 0 and is_file(r.target)]
        x.add("search", path_words(words), pattern=pattern or "")
        return
    if name == "find":
        words = []
        for w in x.argv[1:]:
            if w in ("-H", "-L", "-P"):
                continue
            if w[:1] in "-(!":
                break
            words.append(w)
        if "-delete" in x.argv:
            x.add("delete", words, recursive=True)
        else:
            x.add("search", words, pattern=x.value("-name", "-iname", "-path", "-regex") or "")
        return
    if x.command.piped_in and name == "wc":
        return
    x.add("search", path_words(x.operands("cfgtnIwhLP" if name in ("ls", "tree", "stat") else "")), pattern="")


def compare(x: Context) -> None:
    name = x.name
    if name in ("diff", "cmp", "comm", "sdiff", "colordiff", "vimdiff", "difft", "git-diff"):
        words = x.operands("UCxXIFin" if name != "cmp" else "in", ("--exclude", "--label", "--strip-trailing-cr-x"))
        x.add("compare", path_words(words), how="diff")
    else:
        x.add("compare", path_words(x.operands("ab")), how="hash")


def tee(x: Context) -> None:
    words = [w for w in path_words(x.operands()) if is_file(w)]
    if words:
        x.add("write", words, append=x.has("-a", "--append"), in_place=False)


def dd(x: Context) -> None:
    given = dict(w.split("=", 1) for w in x.argv[1:] if "=" in w)
    source, dest = given.get("if", ""), given.get("of", "")
    keeps = "notrunc" in given.get("conv", "")
    if dest and is_file(dest):
        if source and not source.startswith("/dev/"):
            x.add("copy", (source,), dest=dest)
        x.add("write", (dest,), append=False, in_place=keeps)
    elif source == "" or dest:
        return
    elif (
        source in ("/dev/zero", "/dev/urandom", "/dev/random")
        and "count" not in given
        and not x.command.piped_out
        and x.waits
    ):
        x.add("endless", (source,), why="dd from an endless device")
    elif source:
        _reading(x, [source], True, "count" in given)


def write(x: Context) -> None:
    """truncate, sponge, touch, ex, patch and what unpacks."""
    name = x.name
    if name == "truncate":
        x.add("write", path_words(x.operands("rs", ("--size", "--reference"))), append=False, in_place=True)
    elif name == "sponge":
        x.add("write", path_words(x.operands()), append=x.has("-a"), in_place=False)
    elif name == "touch":
        x.add("write", path_words(x.operands("drt", ("--date", "--reference"))), append=True, in_place=False)
    elif name in ("ed", "ex"):
        words = path_words(x.operands("cps"))
        if x.fed or (name == "ex" and x.has("-c", "-s")):
            x.add("write", words[:1], append=False, in_place=True)
        elif x.waits:
            x.add("interactive", words, why=f"{name} waits for commands")
    elif name == "patch":
        if not x.has("--dry-run"):
            x.add("write", path_words(x.operands("pidorBDFgVYz"))[:1], append=False, in_place=True)
    elif name in ("unzip", "unrar", "7z", "7za"):
        if name == "unzip" and x.has("-l", "-t", "-p", "-v", "-Z"):
            return
        if name.startswith("7z") and x.argv[1:2] not in (["x"], ["e"]):
            return
        x.add("write", (x.value("-d") or ".",), append=False, in_place=False, unpacks=True)
    elif name in ("gunzip", "bunzip2", "unxz", "gzip", "bzip2", "xz", "zstd"):
        words = path_words(x.operands("S"))
        if words and not x.has("-c", "--stdout", "-t", "-l"):
            if x.has("-k", "--keep"):
                x.add("copy", words, dest="")
            else:
                x.add("write", words, append=False, in_place=True)
    elif name in ("fsck", "e2fsck", "mount", "xfs_repair", "testdisk", "photorec", "mkfs", "mkfs.ext4"):
        words = path_words(x.operands("otLU"))
        read_only = name == "mount" and (x.has("-r", "--read-only") or "ro" in (x.value("-o") or "").split(","))
        if words and not read_only and not x.has("-n"):
            x.add("write", words, append=False, in_place=True)


def tar(x: Context) -> None:
    mode = next((a for a in x.argv[1:] if not a.startswith("--")), "")
    archive = x.value("-f", "--file") or ""
    if not archive and "f" in mode and len(x.argv) > 2:
        at = x.argv.index(mode)
        archive = x.argv[at + 1] if at + 1 < len(x.argv) else ""
    folder = x.value("-C", "--directory") or "."
    letters = mode.lstrip("-")
    words = [
        w
        for w in path_words(x.operands("fCXT", ("--exclude", "--file", "--directory")))
        if w not in (archive, mode, folder)
    ]
    if ("c" in letters[:6] and "x" not in letters) or x.has("--create"):
        x.add("copy", words, dest=archive)
    elif "x" in letters[:6] or x.has("--extract", "--get"):
        x.add("write", (folder,), append=False, in_place=False, unpacks=True)
    elif "t" in letters[:6] and archive:
        x.add("search", (archive,), pattern="")


def copy(x: Context) -> None:
    name = x.name
    if name == "install" and x.has("-d", "--directory"):
        return
    short = {"cp": "St", "install": "mogStB", "rsync": "efBTM", "scp": "PiFoclJS", "ditto": "", "zip": "xinPt"}.get(
        name, "t"
    )
    long = ("--target-directory", "--suffix", "--exclude", "--include", "--rsh", "--files-from", "--rsync-path", "--filter",
            "--mode", "--owner", "--group")  # fmt: skip
    words = path_words(x.operands(short, long))
    target = x.value("-t", "--target-directory") if name in ("cp", "install") else None
    if name == "zip":
        if len(words) > 1:
            x.add("copy", words[1:], dest=words[0])
        return
    if target is None:
        if len(words) < 2 and not (words and x.wrapped("xargs")):
            return
        target, words = words[-1], words[:-1]
    if name == "rsync" and x.has("-n", "--dry-run"):
        return
    x.add("copy", words, dest=target)
    if name == "rsync" and any(a.startswith("--delete") for a in x.argv):
        x.add("delete", (target,), recursive=True)
    if (
        name in ("cp", "install")
        and name == "cp"
        and x.has("-i", "--interactive")
        and not x.fed
        and x.waits
        and not x.has("-f")
    ):
        x.add("interactive", (target,), why="cp -i asks")


def move(x: Context) -> None:
    words = path_words(x.operands("St", ("--target-directory", "--suffix")))
    target = x.value("-t", "--target-directory")
    if target is None:
        if len(words) < 2:
            return
        target, words = words[-1], words[:-1]
    x.add("move", words, dest=target)


def delete(x: Context) -> None:
    name = x.name
    if name == "shred":
        words = path_words(x.operands("ns"))
        if x.has("-u", "--remove"):
            x.add("delete", words, recursive=False)
        else:
            x.add("write", words, append=False, in_place=True)
        return
    recursive = x.has("-r", "-R", "--recursive") or name in ("rimraf", "trash")
    words = path_words(x.operands())
    if words or x.wrapped("xargs", "find -exec"):
        x.add("delete", words, recursive=recursive)
    if name == "rm" and x.has("-i", "--interactive") and not x.fed and x.waits and not x.has("-f"):
        x.add("interactive", words, why="rm -i asks")


PATCH_LINE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$|^\*\*\* Move to: (.+?)\s*$", re.M)


def apply_patch(x: Context) -> None:
    """Codex's `apply_patch`, whose patch is an argument or a heredoc."""
    text = x.command.stdin or (x.argv[1] if len(x.argv) > 1 else "")
    for verb, path, moved in PATCH_LINE.findall(text):
        if moved:
            x.add("write", (moved,), append=False, in_place=False)
        elif verb == "Delete":
            x.add("delete", (path,), recursive=False)
        else:
            x.add("write", (path,), append=False, in_place=verb == "Update")


def url_of(words: list[str]) -> str:
    for w in words:
        if "://" in w:
            return w
    return words[0] if words else ""


CURL = ("AbcCdDeEFHKmoPQrtTuUwxXyYz", ("--data", "--data-raw", "--data-binary", "--header", "--request", "--output", "--user",
        "--form", "--user-agent", "--cookie", "--cookie-jar", "--max-time", "--connect-timeout", "--retry", "--retry-delay",
        "--write-out", "--url", "--cacert", "--cert", "--key", "--proxy", "--data-urlencode", "--json", "--resolve",
        "--unix-socket", "--output-dir", "--retry-max-time", "--referer", "--range", "--upload-file", "--interface"))  # fmt: skip
LOCAL = re.compile(r"(?:^|//|@)(?:localhost|127\.\d|0\.0\.0\.0|\[?::1\]?|host\.docker\.internal)", re.I)


def fetch(x: Context) -> None:
    """curl, wget and their kin: a probe of what they talk to, a download where a file is left."""
    name = x.name
    if x.has("--version", "--help", "-V") and len(x.argv) == 2:
        return
    goes_to_file = [
        r.target for r in x.command.redirects if r.op in (">", ">>", ">|") and r.fd == 1 and is_file(r.target)
    ]
    if name == "curl":
        words = x.operands(*CURL)
        url = x.value("--url") or url_of(words)
        socket = x.value("--unix-socket")
        if not url and not socket:
            return
        out = x.value("-o", "--output")
        x.add("probe", target=url, local=bool(socket) or is_local(url))
        if x.has("-O", "--remote-name"):
            x.add("download", (url.rsplit("/", 1)[-1],), url=url)
        elif out and out != "-" and is_file(out):
            x.add("download", (out,), url=url)
        elif goes_to_file:
            x.add("download", goes_to_file, url=url)
        return
    if name == "wget":
        words = x.operands("aeiBoOPtTUQwlADXInR", ("--header", "--output-document", "--directory-prefix", "--timeout", "--tries",
                           "--user-agent", "--post-data", "--user", "--password"))  # fmt: skip
        url = url_of(words)
        if not url:
            return
        x.add("probe", target=url, local=is_local(url))
        out = x.value("-O", "--output-document")
        if out is None:
            cluster = next((a for a in x.argv[1:] if re.fullmatch(r"-[a-zA-Z]*O-?", a)), None)
            if cluster:
                at = x.argv.index(cluster)
                out = "-" if cluster.endswith("-") else (x.argv[at + 1] if at + 1 < len(x.argv) else "-")
        if x.has("--spider"):
            return
        if out in ("-", "/dev/stdout"):
            if goes_to_file:
                x.add("download", goes_to_file, url=url)
        elif out is None:
            folder = x.value("-P", "--directory-prefix")
            leaf = url.split("?")[0].rsplit("/", 1)[-1] or "index.html"
            x.add("download", (f"{folder.rstrip('/')}/{leaf}" if folder else leaf,), url=url)
        elif is_file(out):
            x.add("download", (out,), url=url)
        return
    words = x.operands("odxsj")
    url = url_of(words)
    out = x.value("-o", "--out", "-O", "--output")
    if name in ("http", "https", "xh", "xhs"):
        url = next((w for w in words if not w.isupper()), "")
        if url:
            x.add("probe", target=url, local=is_local(url) or url.startswith(":"))
        if not x.has("-d", "--download") and not out:
            return
    if url:
        x.add("download", (out,) if out else (), url=url)


def is_local(target: str) -> bool:
    """The address is this machine's own."""
    return bool(LOCAL.search(target))


READERS: dict[str, Reader] = {
    **dict.fromkeys(RAW_READERS, read),
    **dict.fromkeys(RENDERING, read),
    **dict.fromkeys(("grep", "rg", "ag", "ack", "find", "fd", "ls", "tree", "exa", "eza", "locate", "stat", "file", "wc", "du"), search),
    **dict.fromkeys(("diff", "cmp", "comm", "sdiff", "colordiff", "difft", "md5sum", "sha1sum", "sha256sum", "sha512sum", "shasum",
                     "cksum", "b2sum", "md5", "xxhsum"), compare),
    **dict.fromkeys(("truncate", "sponge", "touch", "ed", "ex", "patch", "unzip", "unrar", "7z", "7za", "gunzip", "bunzip2", "unxz",
                     "gzip", "bzip2", "xz", "zstd", "fsck", "e2fsck", "mount", "xfs_repair"), write),
    **dict.fromkeys(("cp", "install", "rsync", "scp", "ditto", "zip"), copy),
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "rimraf", "trash"), delete),
    **dict.fromkeys(("curl", "wget", "http", "https", "xh", "xhs", "aria2c", "gdown"), fetch),
    "sed": sed,
    "awk": awk,
    "perl": perl,
    "tee": tee,
    "dd": dd,
    "tar": tar,
    "mv": move,
    "apply_patch": apply_patch,
    "applypatch": apply_patch,
}  # fmt: skip
