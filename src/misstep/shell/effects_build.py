"""Effects of tools: tests, linters, formatters, compilers and build tools."""

from __future__ import annotations

import re

from .build_tables import (
    COMPILE_VERBS,
    COMPILERS,
    FILTERS,
    LATEX,
    MAKE_VALUES,
    NOT_RUN,
    RUNNERS,
    SCRIPT_BUILD,
    SCRIPT_FORMAT,
    SCRIPT_LINT,
    TEST_SCRIPT,
    TEST_VERBS,
    TEST_WORD,
    TOOLS,
    VERB_TOOLS,
    WHOLE,
)
from .context import Context, Reader, path_words


def test(x: Context, runner: str, words: list[str]) -> None:
    """Notes a run of tests; `words` are the files and ids that it is restricted to."""
    words = [w for w in words if w[:1] != "-"]
    found = [a for a in x.argv[1:] if a.partition("=")[0] in FILTERS and a != "-m" and a not in runner]
    whole = all(w.rstrip("/") in WHOLE or TEST_SCRIPT.search(w) for w in words)
    x.add("test", words, runner=runner, partial=bool(found or not whole))
    if x.waits and ("--watch" in x.argv or "--watchAll" in x.argv):
        x.add("endless", why=f"{runner} watches")


def runner(x: Context) -> None:
    name = x.name
    if any(a in NOT_RUN[:10] for a in x.argv[1:]):
        return
    if name in ("ctest", "tox", "nox") and x.has("-N", "--show-only", "-l", "-a", "--list"):
        return
    words = path_words(x.operands(RUNNERS[name], ("--tb", "--maxfail", "--timeout", "--cov", "--durations", "--rootdir", "--config", "--ignore",
                                  "--junitxml", "--color", "--reporter", "--deselect", "--cov-report", "--testNamePattern", "--test-dir", "--maxWorkers")))  # fmt: skip
    test(x, name, words)


def verb_tests(x: Context, words: list[str]) -> bool:
    """`cargo test`, `npm test`, `npm run test:unit`, `make check`: True where it ran tests."""
    name = x.name
    verbs = TEST_VERBS.get(name)
    if verbs is None:
        return False
    verb = words[0] if words else ""
    rest = words[1:]
    if (
        verb in ("run", "run-script")
        and words[1:2]
        and name in ("npm", "yarn", "pnpm", "bun", "mise", "task", "composer", "nx", "turbo", "deno")
    ):
        verb, rest = words[1], words[2:]
        if not TEST_WORD.search(verb) or verb.endswith((":watch", "-watch", ":update")):
            return False
        test(x, f"{name} {verb}", rest)
        return True
    if verb not in verbs:
        if (
            name in ("make", "just", "task", "yarn", "pnpm", "invoke", "inv", "poe", "rake", "bun")
            and verb
            and re.match(r"(?:tests?|e2e)(?:[:_\-]|$)", verb)
        ):
            test(x, f"{name} {verb}", rest)
            return True
        if name in ("gradle", "gradlew", "mvn", "mvnw", "ninja", "make", "sbt", "lein", "xcodebuild", "bazel") and any(
            w.rsplit(":", 1)[-1] in verbs or (name.startswith("gradle") and w.endswith("Test")) for w in words
        ):
            if x.has("-DskipTests", "-Dmaven.test.skip"):
                return False
            test(x, f"{name} test", [])
            return True
        return False
    if any(a in NOT_RUN[:10] for a in x.argv[1:]) or (name == "make" and x.has("-n", "--dry-run")):
        return False
    if name.startswith("mvn") and any(a.startswith(("-DskipTests", "-Dmaven.test.skip")) for a in x.argv):
        return False
    if name == "vitest" and not verb and not x.fed and x.has("--watch", "-w"):
        x.add("endless", why="vitest watches")
    if name == "cargo" and verb == "nextest" and rest[:1] in (["list"], ["show-config"]):
        return False
    if name == "cargo" and verb == "nextest":
        rest = rest[1:]
    test(x, name if not verb or name in ("vitest",) else f"{name} {verb}", path_words(rest))
    return True


def tool(x: Context) -> None:
    """Formatters and linters of TOOLS."""
    name = x.name
    if x.argv[1:2] in (["--version"], ["--help"], ["-h"], ["-V"]):
        return
    rewriting, looking, default = TOOLS[name]
    if name == "xmllint" and not x.has("--noout"):
        return
    if name in ("pre-commit", "lefthook") and x.argv[1:2] != ["run"]:
        return
    if name == "golangci-lint" and x.argv[1:2] not in (["run"], ["fmt"]):
        return
    if name == "ansible-playbook":
        if x.has("--syntax-check", "--check"):
            x.add("lint", path_words(x.operands("ie")), tool=name)
        return
    rewrites = default
    if rewriting and (
        x.has(*[o for o in rewriting if o[0] == "-"]) or any(o in x.argv[1:3] for o in rewriting if o[0] != "-")
    ):
        rewrites = True
    if looking and (
        x.has(*[o for o in looking if o[0] == "-"]) or any(o in x.argv[1:3] for o in looking if o[0] != "-")
    ):
        rewrites = False
    words = path_words(
        x.operands(
            "clLmnseE",
            (
                "--config",
                "--line-length",
                "--rcfile",
                "--parser",
                "--style",
                "--ext",
                "--select",
                "--ignore",
                "--max-line-length",
            ),
        )
    )
    words = [
        w
        for w in words
        if w not in rewriting and w not in ("run", "check", "lint", "format", "analyse", "analyze", "ci")
    ]
    if (default and not rewrites) or not default:
        x.add("format" if rewrites else "lint", words, tool=name)
    else:
        if (words == [] and x.command.piped_in) or (words == [] and "-" in x.argv):
            return  # a filter
        x.add("format", words, tool=name)


def verb_tool(x: Context, words: list[str]) -> bool:
    if not words:
        return False
    found = VERB_TOOLS.get(f"{x.name} {words[0]}")
    if not found:
        return False
    kind, turns = found
    if turns and (x.has(*turns) or any(t in x.argv for t in turns)):
        kind = "lint" if kind == "format" else "format"
    x.add(kind, path_words(words[1:]), tool=f"{x.name} {words[0]}")
    return True


def script_kind(x: Context, runner: str, verb: str) -> bool:
    """A named script of a package (npm run X, make X, just X): its name tells what it does."""
    if SCRIPT_FORMAT.search(verb) and "check" not in verb and not x.has("--check", "--check-only", "--list-different"):
        x.add("format", tool=f"{runner} {verb}")
    elif SCRIPT_LINT.search(verb) or SCRIPT_FORMAT.search(verb):
        x.add("lint", tool=f"{runner} {verb}")
    elif SCRIPT_BUILD.search(verb):
        if x.waits and (verb.endswith("watch") or x.has("--watch")):
            x.add("endless", why=f"{runner} {verb} watches")
        x.add("compile", tool=f"{runner} {verb}", output="")
    elif re.search(r"(?:^|[:_\-])watch$", verb):
        if x.waits:
            x.add("endless", why=f"{runner} {verb} watches")
    else:
        return False
    return True


def compiler(x: Context) -> None:
    name = x.name
    if x.argv[1:2] in (["--version"], ["--help"], ["-v"], ["-h"], ["-version"]) or x.has(
        "--version", "-dumpversion", "-dumpmachine", "--print-prog-name"
    ):
        return
    if name == "tsc":
        if x.has("--noEmit") or x.has("--init", "--showConfig"):
            if x.has("--noEmit"):
                x.add("lint", path_words(x.operands("pt")), tool="tsc")
            return
        if x.has("-w", "--watch") and x.waits:
            x.add("endless", why="tsc watches")
    elif name in ("cmake", "meson", "ninja", "bazel", "bazelisk", "xcodebuild") and verb_tests(
        x, x.operands("CSBGDj", ("--target", "--build"))
    ):
        return
    if name == "cmake" and ("-E" in x.argv or "-P" in x.argv):
        return
    if name == "cmake" and x.value("--target") in ("test", "check"):
        test(x, "cmake --build", [])
        return
    if (
        name in ("rollup", "esbuild", "sass", "tsup", "webpack", "typst", "latexmk")
        and x.waits
        and (x.has("--watch", "-w", "-pvc") or x.argv[1:2] == ["watch"])
    ):
        x.add("endless", why=f"{name} watches")
    if name in ("gcc", "g++", "clang", "clang++", "cc", "c++", "rustc", "ghc") and not path_words(x.operands()):
        return
    words = path_words(x.operands("" if name in LATEX else "oIlLDxBCSGtjf", ("--out", "--crate-type", "--edition", "--outfile", "--outdir", "--build", "-output-directory", "-jobname",
                                  "--output-dir", "--target", "--config")))  # fmt: skip
    x.add(
        "compile",
        words,
        tool=name,
        output=x.value("-o", "--output", "--outfile", "-output-directory", "--out-dir") or "",
    )


def make(x: Context) -> None:
    """make and task runners: the target's name tells."""
    name = x.name
    short = MAKE_VALUES if name == "make" else "fdC"
    words = [w for w in x.operands(short, ("--directory", "--file", "--justfile", "--jobs")) if "=" not in w]
    if (x.has("--version", "--help", "--list", "-l", "--summary") and name != "make") or x.has("--version", "--help"):
        return
    if name == "make" and x.has("-n", "--dry-run", "--just-print"):
        return
    if name in ("mise", "rtx"):
        if words[:1] not in (["run"], ["r"]):
            return
        words = words[1:]
        if words and TEST_WORD.search(words[0]):
            test(x, f"{name} run {words[0]}", words[1:])
            return
    elif verb_tests(x, words):
        return
    verb = words[0] if words else ""
    if verb in ("run", "start", "serve", "dev", "server", "up"):
        if verb != "run":
            from .effects_serve import serve

            if verb != "up":
                serve(x, launcher=f"{name} {verb}")
                return
        x.add("run", (), tool=f"{name} {verb}")
    elif verb in ("clean", "distclean", "mrproper", "clobber"):
        x.add("delete", (), recursive=True, tool=f"{name} {verb}")
        if name == "make" and len(words) > 1:
            x.add("compile", tool="make", output="")
    elif verb == "install" and name == "make":
        x.add("install", manager="make", packages=())
    elif not (verb and script_kind(x, name, verb)):
        if name == "make":
            x.add("compile", tool="make", output="")
        elif verb:
            x.add("run", (), tool=f"{name} {verb}")


def build_verbs(x: Context, words: list[str]) -> bool:
    verbs = COMPILE_VERBS.get(x.name)
    if not verbs:
        return False
    verb = words[0] if words else ""
    if verb in verbs or (
        x.name in ("mvn", "mvnw", "gradle", "gradlew", "sbt", "lein")
        and any(w.rsplit(":", 1)[-1] in verbs for w in words)
    ):
        x.add(
            "compile",
            path_words(words[1:]) if x.name in ("go", "nim", "zig", "docker") else (),
            tool=f"{x.name} {verb}".strip(),
            output=x.value("-o", "--output") or "",
        )
        return True
    return False


READERS: dict[str, Reader] = {
    **dict.fromkeys(COMPILERS, compiler),
    **dict.fromkeys(TOOLS, tool),
    **dict.fromkeys(RUNNERS, runner),
    **dict.fromkeys(("make", "just", "task", "mise", "rtx", "invoke", "inv", "poe", "rake"), make),
}
