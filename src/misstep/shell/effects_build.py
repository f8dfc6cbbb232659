"""Effects of tools: tests, linters, formatters, compilers and build tools."""

from __future__ import annotations

import re

from .context import Context, Reader, path_words

# ---------------------------------------------------------------------------------------------------- tests

# Runners of one purpose: program -> short options with a value.
RUNNERS = {"pytest": "kmcpnoWrx", "py.test": "kmcpnoWrx", "tox": "ec", "nox": "sefk", "nosetests": "", "nose2": "", "green": "", "trial": "", "stestr": "",
           "behave": "tnf", "robot": "ditsv", "jest": "ctw", "mocha": "gfrR", "ava": "m", "tap": "", "karma": "", "jasmine": "", "rspec": "efI",
           "cucumber": "", "phpunit": "c", "pest": "", "ctest": "RLEjC", "bats": "fj", "prove": "jI", "busted": "", "ginkgo": "", "gotestsum": "",
           "shellspec": "", "minitest": "", "zunit": "", "pytest-3": "kmcpn", "ptw": "", "check50": "", "lit": "", "llvm-lit": "", "kyua": ""}  # fmt: skip
# Programs with a verb that runs tests.
TEST_VERBS = {"cargo": ("test", "t", "nextest"), "go": ("test",), "npm": ("test", "t", "tst"), "yarn": ("test",), "pnpm": ("test", "t"), "bun": ("test",),
              "deno": ("test",), "dotnet": ("test", "vstest"), "mix": ("test",), "swift": ("test",), "stack": ("test",), "cabal": ("test",),
              "sbt": ("test", "testOnly"), "lein": ("test",), "bazel": ("test",), "buck": ("test",), "buck2": ("test",), "bazelisk": ("test",),
              "mvn": ("test", "verify", "integration-test"), "mvnw": ("test", "verify"), "gradle": ("test", "check"), "gradlew": ("test", "check"),
              "rake": ("test", "spec"), "rails": ("test", "test:system"), "make": ("test", "tests", "check", "unittest", "testall"), "just": ("test", "tests"),
              "task": ("test",), "hatch": ("test",), "composer": ("test",), "artisan": ("test",), "flutter": ("test",), "dart": ("test",), "forge": ("test",),
              "hardhat": ("test",), "truffle": ("test",), "anchor": ("test",), "meson": ("test",), "ninja": ("test", "check"), "xcodebuild": ("test",),
              "ng": ("test", "e2e"), "vue-cli-service": ("test:unit",), "react-scripts": ("test",), "playwright": ("test",), "cypress": ("run",),
              "zig": ("test",), "gleam": ("test",), "dune": ("test", "runtest"), "moon": ("test",), "nx": ("test", "e2e"), "turbo": ("test",),
              "vitest": ("run", "", "related", "--run"), "invoke": ("test",), "inv": ("test",), "pre-commit": (), "gotestsum": ("",), "crystal": ("spec",),
              "elm-test": ("",), "sui": (), "mise": ("test",), "rye": ("test",), "poe": ("test",), "pdm": ("test",), "pixi": ("test",)}  # fmt: skip
TEST_WORD = re.compile(r"(?:^|[:_\-./])(?:tests?|e2e|specs?|unittests?|pytest|check)(?:$|[:_\-])", re.I)
TEST_SCRIPT = re.compile(
    r"(?:^|/)(?:(?:run|do|exec)[_-]?(?:all[_-]?|unit[_-]?|integration[_-]?)?(?:tests?|specs?)|tests?(?:[_-]?(?:all|suite|runner))?)(?:\.\w+)?$",
    re.I,
)
TEST_FILE = re.compile(
    r"(?:^|/)(?:test_[^/]*|[^/]*_test|[^/]*_tests|[^/]*\.(?:test|spec))\.(?:py|js|mjs|cjs|ts|rb|sh|php|pl|t|lua|R|exs|jl)$|(?:^|/)tests?\.(?:py|js|mjs|ts|rb|sh)$"
)
FILTERS = ("-k", "-m", "-t", "-g", "-run", "--run", "--grep", "--filter", "--testNamePattern", "-R", "--tests", "--test", "-Dtest", "--lf",
           "--last-failed", "-e", "--example", "--only", "--testPathPattern", "--bin", "--lib", "--package", "-p")  # fmt: skip
NOT_RUN = ("--version", "--help", "-h", "--collect-only", "--co", "--fixtures", "--list", "--listTests", "--list-tests", "--no-run", "-N",
           "--show-only", "--markers", "--list-sessions", "-l", "--dry-run", "-n")  # fmt: skip


WHOLE = frozenset([".", "./...", "...", "test", "tests", "spec", "specs", "./test", "./tests", "src", "./spec"])
"""What stands for all tests of a project."""


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


# --------------------------------------------------------------------------------- linters and formatters

# program -> (options that make it rewrite, options that make it only look, it rewrites by default, verbs that are neither)
TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
    "black": ((), ("--check", "--diff"), True),
    "isort": ((), ("--check", "--check-only", "-c", "--diff", "--df"), True),
    "autopep8": (("-i", "--in-place"), ("--diff",), False),
    "yapf": (("-i", "--in-place"), ("-d", "--diff"), False),
    "autoflake": (("-i", "--in-place"), ("--check",), False),
    "docformatter": (("-i", "--in-place"), (), False),
    "pyupgrade": ((), (), True),
    "flake8": ((), (), False),
    "pylint": ((), (), False),
    "pyflakes": ((), (), False),
    "pycodestyle": ((), (), False),
    "pydocstyle": ((), (), False),
    "mypy": ((), (), False),
    "dmypy": ((), (), False),
    "pyright": ((), (), False),
    "basedpyright": ((), (), False),
    "pytype": ((), (), False),
    "ty": ((), (), False),
    "bandit": ((), (), False),
    "vulture": ((), (), False),
    "prettier": (("--write", "-w"), ("--check", "-c", "-l", "--list-different"), False),
    "prettierd": ((), (), False),
    "eslint": (("--fix",), ("--fix-dry-run",), False),
    "stylelint": (("--fix",), (), False),
    "standard": (("--fix",), (), False),
    "xo": (("--fix",), (), False),
    "oxlint": (("--fix",), (), False),
    "tslint": (("--fix",), (), False),
    "jshint": ((), (), False),
    "gofmt": (("-w",), ("-l", "-d"), False),
    "gofumpt": (("-w",), ("-l", "-d"), False),
    "goimports": (("-w",), ("-l", "-d"), False),
    "golangci-lint": (("--fix",), (), False),
    "staticcheck": ((), (), False),
    "golint": ((), (), False),
    "revive": ((), (), False),
    "rustfmt": ((), ("--check",), True),
    "clang-format": (("-i",), ("--dry-run", "-n"), False),
    "clang-tidy": (("-fix", "--fix", "-fix-errors"), (), False),
    "cppcheck": ((), (), False),
    "shfmt": (("-w", "--write"), ("-d", "-l", "--diff"), False),
    "shellcheck": ((), (), False),
    "hadolint": ((), (), False),
    "yamllint": ((), (), False),
    "yamlfmt": ((), ("-lint", "-dry"), True),
    "jsonlint": (("-i",), (), False),
    "actionlint": ((), (), False),
    "markdownlint": (("--fix", "-f"), (), False),
    "markdownlint-cli2": (("--fix",), (), False),
    "mdformat": ((), ("--check",), True),
    "vale": ((), (), False),
    "chktex": ((), (), False),
    "lacheck": ((), (), False),
    "latexindent": (("-w", "--overwrite"), (), False),
    "stylua": ((), ("--check",), True),
    "luacheck": ((), (), False),
    "rubocop": (("-a", "-A", "--autocorrect", "--auto-correct", "--autocorrect-all", "-x"), (), False),
    "standardrb": (("--fix",), (), False),
    "phpstan": ((), (), False),
    "psalm": (("--alter",), (), False),
    "phpcs": ((), (), False),
    "phpcbf": ((), (), True),
    "pint": ((), ("--test",), True),
    "php-cs-fixer": (("fix",), ("--dry-run",), False),
    "swiftformat": ((), ("--lint",), True),
    "swiftlint": (("--fix", "autocorrect"), (), False),
    "ktlint": (("-F", "--format"), (), False),
    "detekt": ((), (), False),
    "google-java-format": (("-i", "-r", "--replace"), ("-n", "--dry-run"), False),
    "scalafmt": ((), ("--test", "--check"), True),
    "ormolu": (("-i", "--mode=inplace"), (), False),
    "fourmolu": (("-i",), (), False),
    "hlint": (("--refactor",), (), False),
    "nixfmt": ((), ("--check",), True),
    "alejandra": ((), ("--check", "-c"), True),
    "dos2unix": ((), ("-i",), True),
    "unix2dos": ((), ("-i",), True),
    "tidy": (("-m", "-modify"), (), False),
    "sqlfluff": (("fix", "format"), (), False),
    "taplo": (("fmt", "format"), ("--check", "check", "lint"), False),
    "dprint": (("fmt",), ("check",), False),
    "biome": (("--write", "--apply", "--fix", "--apply-unsafe"), (), False),
    "vue-tsc": ((), (), False),
    "svelte-check": ((), (), False),
    "knip": (("--fix",), (), False),
    "tflint": (("--fix",), (), False),
    "checkov": ((), (), False),
    "ansible-lint": (("--fix",), (), False),
    "checkstyle": ((), (), False),
    "pre-commit": ((), (), False),
    "lefthook": ((), (), False),
    "codespell": (("-w", "--write-changes"), (), False),
    "typos": (("-w", "--write-changes"), (), False),
    "buildifier": ((), ("--mode=check", "-mode=check"), True),
    "cmake-format": (("-i",), ("--check",), False),
    "nasmfmt": ((), (), True),
    "rustywind": (("--write",), (), False),
    "ansible-playbook": ((), (), False),
    "xmllint": ((), (), False),
}
# "program verb" -> (kind, options that turn it round)
VERB_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ruff format": ("format", ("--check", "--diff")),
    "ruff check": ("lint", ("--fix", "--fix-only", "--unsafe-fixes")),
    "go fmt": ("format", ("-n",)),
    "go vet": ("lint", ()),
    "cargo fmt": ("format", ("--check",)),
    "cargo clippy": ("lint", ("--fix",)),
    "cargo check": ("lint", ()),
    "cargo fix": ("format", ()),
    "cargo audit": ("lint", ()),
    "cargo deny": ("lint", ()),
    "cargo machete": ("lint", ("--fix",)),
    "terraform fmt": ("format", ("-check", "--check")),
    "terraform validate": ("lint", ()),
    "tofu fmt": ("format", ("-check", "--check")),
    "mix format": ("format", ("--check-formatted",)),
    "mix credo": ("lint", ()),
    "mix dialyzer": ("lint", ()),
    "dart format": ("format", ("--set-exit-if-changed", "-o")),
    "dart analyze": ("lint", ()),
    "flutter analyze": ("lint", ()),
    "deno fmt": ("format", ("--check",)),
    "deno lint": ("lint", ("--fix",)),
    "deno check": ("lint", ()),
    "zig fmt": ("format", ("--check",)),
    "gleam format": ("format", ("--check",)),
    "dotnet format": ("format", ("--verify-no-changes",)),
    "buf format": ("format", ("-d", "--diff")),
    "buf lint": ("lint", ()),
    "ng lint": ("lint", ("--fix",)),
    "next lint": ("lint", ("--fix",)),
    "helm lint": ("lint", ()),
    "nix fmt": ("format", ()),
    "astro check": ("lint", ()),
    "ruff .": ("lint", ("--fix",)),
    "forge fmt": ("format", ("--check",)),
    "gradle spotlessApply": ("format", ()),
    "gradlew spotlessApply": ("format", ()),
    "mvn spotless:apply": ("format", ()),
    "gradlew spotlessCheck": ("lint", ()),
    "gradlew lint": ("lint", ()),
    "swift format": ("format", ("lint",)),
    "poetry check": ("lint", ()),
}


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


SCRIPT_LINT = re.compile(
    r"(?:^|[:_\-])(?:lint|typecheck|type-check|check-types|types|tsc|check|eslint|stylelint)(?:$|[:_\-])"
)
SCRIPT_FORMAT = re.compile(r"(?:^|[:_\-])(?:fmt|format|prettier)(?:$|[:_\-])|^lint[:-]fix$|^lintfix$|^fix$")
SCRIPT_BUILD = re.compile(r"(?:^|[:_\-])(?:build|compile|bundle|dist)(?:$|[:_\-])")


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


# ------------------------------------------------------------------------------------------------ compilers

COMPILERS = frozenset(
    [
        "gcc",
        "g++",
        "cc",
        "c++",
        "clang",
        "clang++",
        "cpp",
        "rustc",
        "javac",
        "kotlinc",
        "scalac",
        "ld",
        "as",
        "nasm",
        "yasm",
        "ghc",
        "ocamlc",
        "ocamlopt",
        "ocamlfind",
        "swiftc",
        "nvcc",
        "gfortran",
        "f77",
        "pdflatex",
        "xelatex",
        "lualatex",
        "latexmk",
        "tectonic",
        "latex",
        "pdftex",
        "xetex",
        "luatex",
        "bibtex",
        "biber",
        "makeindex",
        "dvips",
        "typst",
        "webpack",
        "rollup",
        "esbuild",
        "swc",
        "babel",
        "tsup",
        "pyinstaller",
        "cython",
        "nuitka",
        "protoc",
        "sass",
        "lessc",
        "emcc",
        "em++",
        "wasm-pack",
        "fpc",
        "cobc",
        "iverilog",
        "verilator",
        "coqc",
        "agda",
        "idris2",
        "ml",
        "mlton",
        "sbcl_",
        "dmd",
        "ldc2",
        "gdc",
        "cmake",
        "ninja",
        "meson",
        "bazel",
        "bazelisk",
        "scons",
        "autoreconf",
        "autoconf",
        "automake",
        "configure",
        "autogen.sh",
        "ant",
        "sdcc",
        "avr-gcc",
        "arm-none-eabi-gcc",
        "aarch64-linux-gnu-gcc",
        "x86_64-w64-mingw32-gcc",
        "musl-gcc",
        "tcc",
        "pcc",
        "chicken",
        "csc",
        "gsc",
        "raco",
        "mcs",
        "fsc",
        "vbc",
        "elm",
        "purs",
        "spago",
        "tsc",
        "asc",
        "wat2wasm",
        "wasm-ld",
        "clang-cl",
        "cl",
        "nmake",
        "msbuild",
        "qmake",
        "xcodebuild",
        "gnatmake",
        "gprbuild",
        "zig-cc",
        "afl-gcc",
        "dpkg-buildpackage",
        "rpmbuild",
        "debuild",
    ]
)
COMPILE_VERBS = {"cargo": ("build", "b", "rustc", "install_"), "go": ("build", "install", "generate"), "zig": ("build", "build-exe", "build-lib", "build-obj"),
                 "stack": ("build",), "cabal": ("build",), "dune": ("build",), "swift": ("build",), "dotnet": ("build", "publish", "pack"), "mix": ("compile",),
                 "sbt": ("compile", "package", "assembly"), "lein": ("compile", "uberjar"), "mvn": ("compile", "package", "install", "clean", "test-compile"),
                 "mvnw": ("compile", "package", "install", "clean"), "gradle": ("build", "assemble", "jar", "classes", "compileJava", "installDist", "shadowJar"),
                 "gradlew": ("build", "assemble", "jar", "classes", "assembleDebug", "compileJava", "installDist"), "docker": ("build", "buildx"),
                 "podman": ("build",), "vite": ("build",), "next": ("build",), "nuxt": ("build", "generate"), "astro": ("build",), "ng": ("build",),
                 "bun": ("build",), "deno": ("compile", "bundle"), "npm": (), "parcel": ("build",), "hugo": ("",), "mkdocs": ("build",), "jekyll": ("build",),
                 "lake": ("build",), "gleam": ("build",), "crystal": ("build",), "nim": ("c", "cpp", "compile", "js"), "nimble": ("build",), "uv": ("build",),
                 "poetry": ("build",), "hatch": ("build",), "flit": ("build",), "forge": ("build",), "anchor": ("build",), "hardhat": ("compile",),
                 "flutter": ("build",), "turbo": ("build",), "nx": ("build",), "react-scripts": ("build",), "wasm-pack": ("build",), "trunk": ("build",),
                 "idf.py": ("build",), "pio": ("run",), "arduino-cli": ("compile",), "west": ("build",), "docker-compose": ("build",), "maturin": ("build", "develop"),
                 "shards": ("build",), "rebar3": ("compile",), "vue-cli-service": ("build",), "quarto": ("render",), "sphinx-build": ("",)}  # fmt: skip
MAKE_VALUES = "CfIjloWE"


LATEX = frozenset(["pdflatex", "xelatex", "lualatex", "latexmk", "latex", "pdftex", "xetex", "luatex", "tectonic"])


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
