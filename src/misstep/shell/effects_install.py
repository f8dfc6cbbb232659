"""Effects of package managers, and of the tools that have verbs for everything (cargo, go, npm ...)."""

from __future__ import annotations

import re

from .build_tables import COMPILE_VERBS, RUNNERS, TEST_VERBS
from .context import Context, Reader, path_words
from .effects_build import build_verbs, script_kind, verb_tests, verb_tool
from .effects_serve import package_script, serve

# manager: (verbs that install, verbs that install what a lock file lists)
MANAGERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pip": (("install",), ()),
    "uv": (("add", "pip install", "tool install"), ("sync", "pip sync", "lock")),
    "poetry": (("add",), ("install", "update", "sync")),
    "pipenv": (("install",), ("sync", "update")),
    "pdm": (("add",), ("install", "sync", "update")),
    "rye": (("add",), ("sync",)),
    "pipx": (("install", "inject"), ()),
    "conda": (("install", "create"), ("env create", "env update", "update")),
    "mamba": (("install", "create"), ("env create", "env update", "update")),
    "micromamba": (("install", "create"), ("env create", "update")),
    "pixi": (("add", "global install"), ("install",)),
    "apt": (("install", "reinstall", "build-dep"), ("upgrade", "dist-upgrade", "full-upgrade")),
    "aptitude": (("install",), ("upgrade",)),
    "dpkg": (("-i", "--install"), ()),
    "dnf": (("install", "localinstall", "groupinstall"), ("upgrade", "update")),
    "yum": (("install", "localinstall", "groupinstall"), ("upgrade", "update")),
    "microdnf": (("install",), ("upgrade", "update")),
    "zypper": (("install", "in"), ("update", "up")),
    "apk": (("add",), ("upgrade",)),
    "pacman": (("-S", "-Sy", "-Syu", "-U", "-Syyu"), ()),
    "brew": (("install", "reinstall", "tap"), ("upgrade", "bundle")),
    "snap": (("install",), ()),
    "flatpak": (("install",), ("update",)),
    "npm": (("install", "i", "add"), ("ci", "update", "clean-install")),
    "yarn": (("add", "global add"), ("install", "", "upgrade")),
    "pnpm": (("add",), ("install", "i", "update", "up")),
    "bun": (("add",), ("install", "i", "update")),
    "gem": (("install",), ("update",)),
    "bundle": (("add",), ("install", "update", "")),
    "cargo": (("install", "add"), ("update", "fetch")),
    "rustup": (("toolchain install", "target add", "component add", "install"), ("update",)),
    "go": (("get", "install"), ("mod download", "mod tidy", "mod vendor")),
    "composer": (("require", "global require"), ("install", "update")),
    "cpanm": (("",), ()),
    "cpan": (("",), ()),
    "luarocks": (("install",), ()),
    "opam": (("install",), ()),
    "cabal": (("install",), ("update",)),
    "stack": (("install",), ("setup",)),
    "mix": ((), ("deps.get", "deps.update")),
    "dotnet": (("add", "tool install"), ("restore",)),
    "nix-env": (("-i", "-iA", "--install"), ()),
    "nix": (("profile install",), ()),
    "mise": (("install", "use", "i"), ()),
    "asdf": (("install", "plugin add"), ()),
    "pyenv": (("install",), ()),
    "rbenv": (("install",), ()),
    "nvm": (("install",), ()),
    "fnm": (("install",), ()),
    "volta": (("install",), ()),
    "playwright": (("install", "install-deps"), ()),
    "helm": (("install",), ("dependency update",)),
    "choco": (("install",), ("upgrade",)),
    "winget": (("install",), ("upgrade",)),
    "scoop": (("install",), ("update",)),
    "port": (("install",), ()),
    "pkg": (("install", "add"), ("upgrade",)),
    "deno": (("install", "add"), ()),
    "claude": ((), ()),
}
VALUES = {
    "pip": "rcietfb",
    "apt": "otc",
    "conda": "ncpf",
    "mamba": "ncpf",
    "micromamba": "ncpf",
    "apk": "tXp",
    "npm": "wC",
    "gem": "vi",
    "cargo": "pF",
    "brew": "",
}
LONG_VALUES = ("--index-url", "--extra-index-url", "--find-links", "--requirement", "--target", "--prefix", "--platform", "--python-version", "--python",
               "--constraint", "--name", "--channel", "--file", "--virtual", "--registry", "--version", "--git", "--path", "--features", "--root",
               "--group", "--extra", "--trusted-host", "--root-user-action", "--default-timeout", "--timeout", "--retries", "--only-binary", "--allow-channel")  # fmt: skip
MORE_VALUES = (
    *LONG_VALUES,
    "--cwd",
    "--dir",
    "--filter",
    "--manifest-path",
    "--project",
    "--directory",
    "-C",
    "-p",
    "--package",
)
GO_VALUES = ("-run", "-count", "-timeout", "-bench", "-tags", "-coverprofile", "-o", "-ldflags", "-gcflags", "-C", "-skip", "-parallel", "-cpu",
             "-coverpkg", "-covermode", "-benchtime", "-fuzz", "-fuzztime", "-p", "-mod", "-exec", "-toolexec", "-overlay")  # fmt: skip
# Managers that ask before they install, and what keeps them from it.
ASK = {"apt": ("-y", "--yes", "--assume-yes", "-qq", "-s", "--dry-run", "--simulate", "--download-only"), "aptitude": ("-y",),
       "dnf": ("-y", "--assumeyes"), "yum": ("-y", "--assumeyes"), "zypper": ("-n", "--non-interactive", "-y", "--no-confirm"),
       "pacman": ("--noconfirm",), "conda": ("-y", "--yes"), "mamba": ("-y", "--yes"), "micromamba": ("-y", "--yes"),
       "flatpak": ("-y", "--assumeyes", "--noninteractive"), "pkg": ("-y",), "choco": ("-y",)}  # fmt: skip


def install(x: Context, manager: str, words: list[str]) -> bool:
    """Notes an installation where the verb is one; False where it is not."""
    verbs, locked = MANAGERS[manager]
    verb = words[0] if words else ""
    two = " ".join(words[:2])
    if manager in ("pacman", "dpkg", "nix-env"):
        verb = next((a for a in x.argv[1:] if a[:1] == "-"), "")
        if manager == "pacman" and verb.startswith("-S") and set(verb[2:]) & set("sicgql"):
            return False
        packages = words
    elif two in verbs or two in locked:
        verb, packages = two, words[2:]
    else:
        packages = words[1:]
    if verb not in verbs and verb not in locked:
        return False
    if manager in ("cpanm", "cpan"):
        packages = words
        if not words:
            return False
    if manager in ("yarn", "bundle") and not verb and (x.argv[1:] and x.argv[1:2] != ["--frozen-lockfile"]):
        return False
    if x.has("--help", "--dry-run", "-h") and manager != "apt":
        return False
    if manager == "go" and verb == "install" and not any("@" in p for p in packages):
        return False  # it builds the user's own program
    requirements = (
        [v for v in (x.value("-r", "--requirement", "-f", "--file"),) if v]
        if manager in ("pip", "uv", "conda", "mamba", "micromamba")
        else []
    )
    x.add("install", requirements, manager=manager, packages=tuple(path_words(packages)), verb=verb)
    if manager in ASK and not x.fed and x.waits and not x.has(*ASK[manager]):
        env = x.command.env
        if verb not in ("build-dep", "env create", "env update") and "CONDA_ALWAYS_YES" not in env:
            x.add("interactive", why=f"{manager} {verb} asks for confirmation")
    return True


def manager(x: Context) -> None:
    """Everything whose first word is a manager or a tool with verbs: installs, tests, formats, builds, serves, runs."""
    name = x.name
    words = x.operands(VALUES.get(name, ""), GO_VALUES if name == "go" else MORE_VALUES)
    if name == "cargo" and words and words[0][:1] == "+":
        words = words[1:]
    if verb_tests(x, words) or verb_tool(x, words):
        return
    if name in MANAGERS and install(x, name, words):
        return
    if name in ("npm", "yarn", "pnpm", "bun"):
        _scripts(x, name, words)
        return
    if build_verbs(x, words):
        return
    _runs(x, name, words)


def _scripts(x: Context, name: str, words: list[str]) -> None:
    if build_verbs(x, words):
        return
    at = len(x.out)
    package_script(x)
    if len(x.out) > at:
        return
    verb = words[0] if words else ""
    explicit = verb in ("run", "run-script")
    script = words[1] if explicit and len(words) > 1 else verb
    if not script or (name == "npm" and not explicit):
        if name == "npm" and verb == "init" and not x.has("-y", "--yes") and not x.fed and x.waits and len(words) == 1:
            x.add("interactive", why="npm init asks")
        elif name in ("npm", "yarn", "pnpm") and verb in ("login", "adduser") and x.waits and not x.fed:
            x.add("interactive", why=f"{name} {verb} asks")
        return
    if script in RUNNERS or (script in TEST_VERBS and script in ("vitest", "playwright", "cypress")):  # yarn jest
        from .effects_build import test

        test(x, script, path_words(words[words.index(script) + 1 :]))
    elif script in ("tsc", "eslint", "prettier", "vite", "next"):
        _local_binary(x, script)
    elif not script_kind(x, name, script) and explicit:
        if re.search(r"\.(?:[cm]?[jt]sx?)$", script):
            x.add("run", (script,))
        else:
            x.add("run", (), tool=f"{name} run {script}")


def _local_binary(x: Context, script: str) -> None:
    """`yarn tsc --noEmit`, `pnpm eslint --fix`: as if the tool stood alone."""
    from . import effects

    at = x.argv.index(script)
    inner = Context(x.command, x.argv[at:], x.out, x.depth)
    inner.cwd, inner.downstream, inner.upstream = x.cwd, x.downstream, x.upstream
    effects.dispatch(inner)


def _runs(x: Context, name: str, words: list[str]) -> None:
    verb = words[0] if words else ""
    if name == "cargo" and verb in ("run", "r"):
        if not _listens(x):
            x.add("run", (), tool="cargo run")
    elif name == "go" and verb == "run":
        if not _listens(x):
            x.add(
                "run", tuple(w for w in words[1:] if w.endswith(".go") or w.startswith((".", "/")))[:3], tool="go run"
            )
    elif name == "dotnet" and verb in ("run", "watch"):
        if x.has("--urls"):
            serve(x, launcher="dotnet run")
        elif not _listens(x):
            x.add("run", (), tool="dotnet run")
    elif name == "deno" and verb in ("run", "serve", "task"):
        if verb == "serve":
            serve(x, launcher="deno serve")
        elif verb == "task":
            if words[1:2] and words[1] in ("dev", "start", "serve"):
                serve(x, launcher=f"deno task {words[1]}")
            elif words[1:2]:
                script_kind(x, "deno task", words[1])
        elif not _listens(x):
            x.add("run", tuple(words[1:2]))
    elif (
        name in ("mvn", "mvnw")
        and any(w in ("spring-boot:run", "jetty:run", "quarkus:dev", "tomcat7:run", "cargo:run") for w in words)
    ) or (
        name in ("gradle", "gradlew")
        and any(w.rsplit(":", 1)[-1] in ("bootRun", "appRun", "quarkusDev", "jettyRun") for w in words)
    ):
        serve(x, launcher=f"{name} {verb}")
    elif name in (
        "sbt",
        "stack",
        "cabal",
        "dune",
        "zig",
        "swift",
        "lein",
        "lake",
        "gradle",
        "gradlew",
        "mix",
        "nimble",
        "crystal",
    ) and verb in ("run", "exec", "bootRun"):
        x.add("run", (), tool=f"{name} {verb}")


def _listens(x: Context) -> bool:
    from .effects_serve import program_serves

    rest = x.argv[x.argv.index("--") + 1 :] if "--" in x.argv else x.argv[2:]
    return program_serves(x, " ".join(w for w in x.argv[2:3] if w[:1] != "-"), rest)


OWN_READERS = frozenset(["make", "just", "task", "mise", "rtx", "invoke", "inv", "poe", "rake", "cmake", "meson", "ninja", "bazel", "bazelisk",
                         "xcodebuild", "pre-commit"])  # fmt: skip
READERS: dict[str, Reader] = {
    name: manager
    for name in (
        *MANAGERS,
        *TEST_VERBS,
        *COMPILE_VERBS,
        "ruff",
        "terraform",
        "tofu",
        "buf",
        "hatch",
        "gradle",
        "gradlew",
    )
    if name not in OWN_READERS
}
