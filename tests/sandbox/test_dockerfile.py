"""Reading a Dockerfile, and what becomes of its instructions."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from misstep.sandbox import Root, SandboxError, dockerfile, image, roots, users
from misstep.sandbox.bubblewrap import BubblewrapSandbox

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
TEXT = """\
# syntax=docker/dockerfile:1
ARG WHO=world
FROM misstep-base:bookworm
ENV GREETING="good day" EMPTY= \\
    # a comment within
    LATER=yes
ENV OLD form of it
WORKDIR /srv
WORKDIR data
ARG PART=3
RUN echo "$GREETING, ${WHO:-you} $PART" > greeting; \\
    pwd >> greeting
RUN ["/bin/sh", "-c", "echo '$GREETING' > literal"]
RUN <<EOF
set -e
for i in 1 2; do echo $i; done > loop
EOF
COPY one.txt dir/ /copied/
COPY one.txt renamed.txt
COPY --chmod=755 dir/*.sh bin/
COPY <<END made.txt
line of a document
END
EXPOSE 80
CMD ["sleep", "infinity"]
"""


def context(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "task" / "environment"
    (folder / "dir" / "sub").mkdir(parents=True)
    (folder / "one.txt").write_text("one\n")
    (folder / "dir" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "dir" / "sub" / "deep").write_text("deep\n")
    (folder / "Dockerfile").write_text(text)
    return folder / "Dockerfile"


def test_instructions(root: Root, tmp_path: Path) -> None:
    file = context(tmp_path, TEXT)
    made = image.build(file, root)
    assert made.workdir == "/srv/data"
    assert made.env == {"GREETING": "good day", "EMPTY": "", "LATER": "yes", "OLD": "form of it"}
    with BubblewrapSandbox(made) as box:
        seen = box.exec("cat greeting literal loop; echo $LATER").text
        assert seen == "good day, you 3\n/srv/data\ngood day\n1\n2\nyes\n".replace("good day\n1", "$GREETING\n1")
        seen = box.exec("cat /copied/one.txt /copied/sub/deep renamed.txt; bin/run.sh; cat made.txt").text
        assert seen == "one\ndeep\none\nran\nline of a document\n"
    assert image.build(file, root).layers == made.layers  # nothing is built again
    (file.parent / "one.txt").write_text("changed\n")
    again = image.build(file, root)
    assert again.layers != made.layers
    with BubblewrapSandbox(again) as box:
        assert box.exec("cat renamed.txt").text == "changed\n"


def shown(root: Root, tmp_path: Path, text: str, command: str, **options: object) -> str:
    """What a command prints in the root of a Dockerfile."""
    with BubblewrapSandbox(image.build(context(tmp_path, text), root, **options)) as box:  # type: ignore[arg-type]
        done = box.exec(command)
        return done.text + done.error_text


MULTI = """\
ARG TAG=bookworm
ARG WORD=outer
FROM misstep-base:${TAG} AS Tools
ARG WORD
ARG LOCAL=inner
ENV KEPT=yes
WORKDIR /build
RUN echo "$WORD $LOCAL" > made && mkdir -p tree/sub && echo deep > tree/sub/f && ln -s /usr/bin/env tree/link \
    && echo x > tree/run && chmod 751 tree/run

FROM misstep-base:$TAG AS unused
RUN exit 3

FROM tools AS child
RUN echo "$KEPT $LOCAL" > child

FROM misstep-base:bookworm
COPY --from=tools /build/made /made
COPY --from=0 /build/tree /copied/
COPY --from=child /build/ch*ld /build/made /two/
RUN echo "[$KEPT][$WORD]" > /none
"""


def test_stages(root: Root, tmp_path: Path) -> None:
    """What is copied from which, what one inherits, and that one which nothing needs is never built."""
    command = "cat /made /copied/sub/f /two/child /two/made /none; readlink /copied/link; stat -c '%a %u' /copied/run; ls /build"
    seen = shown(root, tmp_path, MULTI, command)
    assert seen.split("\n")[:7] == ["outer inner", "deep", "yes inner", "outer inner", "[][]", "/usr/bin/env", "751 0"]
    assert "No such file" in seen


def test_arguments(root: Root, tmp_path: Path) -> None:
    text = """\
ARG GLOBAL=1
FROM misstep-base
ARG GLOBAL
ARG A=a B="b $GLOBAL"
ARG C
ARG TARGETARCH
RUN echo "$GLOBAL|$A|$B|$C|$TARGETOS|${TARGETARCH:+known}|$OTHER" > /seen
"""
    given = {"A": "given", "C": "c", "OTHER": "never declared"}
    assert shown(root, tmp_path, text, "cat /seen; echo $A", arguments=given) == "1|given|b 1|c||known|\n\n"


def test_the_shell(root: Root, tmp_path: Path) -> None:
    """sh where nothing is said, as Docker has it; and no variable of Docker's own making is replaced in RUN."""
    text = """\
FROM misstep-base
RUN echo "$0" > /one; x=1; echo "$x ${x}" >> /one
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN [[ -n $BASH_VERSION ]] && echo bash > /two
RUN <<X
if false | true; then echo wrong; else echo pipefail; fi > /three
X
"""
    assert shown(root, tmp_path, text, "cat /one /two /three") == "/bin/sh\n1 1\nbash\npipefail\n"


def test_documents(root: Root, tmp_path: Path) -> None:
    text = """\
FROM misstep-base
ENV NAME=world
RUN <<EOF
#!/usr/bin/env python3
print(f"{1 + 1}", file=open("/script", "w"))
EOF
RUN cat <<EOF > /shell && cat <<'RAW' > /raw
hello $NAME
EOF
'$NAME' "it"
RAW
COPY <<one.txt <<"two.txt" /made/
hello ${NAME:-x} "quoted" it's \\$NAME
one.txt
raw $NAME
two.txt
RUN <<-TABS
\techo tabs > /tabs
\tTABS
RUN echo $((1<<2)) > /shift
"""
    seen = shown(root, tmp_path, text, "cat /script /shell /raw /made/one.txt /made/two.txt /tabs /shift")
    assert seen == ('2\nhello world\n\'$NAME\' "it"\nhello world "quoted" it\'s $NAME\nraw $NAME\ntabs\n4\n')


def test_lines_go_on(root: Root, tmp_path: Path) -> None:
    text = (
        "# escape=`\n# a comment\nFROM misstep-base\r\nRUN echo on`\r\ne `\n\n   # within\n  two > /seen; `\n\techo C:\\x >> /seen\n"
        "copy one.txt /copied\n"
    )
    assert shown(root, tmp_path, text, "cat /seen /copied") == "one two\nC:x\none\n"


@pytest.mark.parametrize("key", ["\u00b2", "0:\u00b2"])
def test_a_digit_that_is_no_number_is_a_name(key: str) -> None:
    with pytest.raises(SandboxError, match=r"there is no (user|group) \u00b2 in the sandbox"):
        users.look_up(key, "")


def test_users(root: Root, tmp_path: Path) -> None:
    with BubblewrapSandbox(root) as box:
        if box.exec("chown 1000 /app").exit_code:
            pytest.skip("only root can run commands in a single-user namespace")
    text = """\
FROM misstep-base
RUN grep -q '^agent:' /etc/passwd || (echo 'agent:x:1000:1000::/home/agent:/bin/sh' >> /etc/passwd; echo 'agent:x:1000:' >> /etc/group)
COPY --chown=agent:agent --chmod=640 one.txt dir /app/
COPY --chown=12:34 one.txt /app/numbers
USER agent
RUN id -un > /tmp/who; echo $HOME >> /tmp/who
COPY one.txt /app/roots
"""
    seen = shown(root, tmp_path, text, "cd /app; stat -c '%n %u %g %a' one.txt sub numbers roots; cat /tmp/who; id -un")
    assert seen.split("\n") == [
        "one.txt 1000 1000 640", "sub 1000 1000 640", "numbers 12 34 644", "roots 0 0 644", "agent", "/home/agent", "agent", "",
    ]  # fmt: skip


def test_what_is_left_out(root: Root, tmp_path: Path) -> None:
    file = context(tmp_path, "FROM misstep-base\nCOPY . /all/\nCOPY dir/*.sh /some/\n")
    for name in ("a.log", "dir/b.log", "dir/sub/c.log", "keep.log", "secret/key", "secret/public", "x1", "x2"):
        (file.parent / name).parent.mkdir(exist_ok=True)
        (file.parent / name).write_text("x")
    (file.parent / ".dockerignore").write_text(
        "# no logs\n**/*.log\n!keep.log\n/secret\n!secret/public\nx[1]\nDockerfile\n.dockerignore\n"
    )
    made = image.build(file, root)
    with BubblewrapSandbox(made) as box:
        seen = box.exec("cd /all && find . -type f | sort; ls /some").text.split()
    assert seen == ["./dir/run.sh", "./dir/sub/deep", "./keep.log", "./one.txt", "./secret/public", "./x2", "run.sh"]
    (file.parent / "a.log").write_text("changed: but it is left out")
    assert image.build(file, root).layers == made.layers
    (file.parent / ".dockerignore").write_text("one.txt\n")
    with pytest.raises(SandboxError, match=r":2: COPY one.txt does not exist"):
        file.write_text("FROM misstep-base\nCOPY one.txt /x\n")
        image.build(file, root)


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:bz2", "w:xz"])
def test_archives_are_unpacked_by_add_alone(root: Root, tmp_path: Path, kind: str) -> None:
    file = context(tmp_path, "FROM misstep-base\nADD data.any /un/\nCOPY data.any /as-is\nADD one.txt /un/\n")
    with tarfile.open(file.parent / "data.any", kind) as tar:  # type: ignore[call-overload]
        entry = tarfile.TarInfo("inner/file")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    with BubblewrapSandbox(image.build(file, root)) as box:
        assert box.exec("cat /un/inner/file; test -f /as-is && cat /un/one.txt").text == "abcone\n"


def test_a_stage_is_kept_by_what_it_is_made_of(root: Root, tmp_path: Path) -> None:
    file = context(tmp_path, "FROM misstep-base AS a\nCOPY one.txt /one\nFROM misstep-base\nCOPY --from=a /one /two\n")
    first = image.build(file, root)
    assert image.build(file, root).layers == first.layers
    (file.parent / "one.txt").write_text("changed\n")
    second = image.build(file, root)
    assert second.layers != first.layers
    with BubblewrapSandbox(second) as box:
        assert box.exec("cat /two").text == "changed\n"
    assert image.build(file, root, force=True).layers == second.layers


def test_images_by_name(root: Root, tmp_path: Path) -> None:
    other = image.build(context(tmp_path / "other", "FROM misstep-base\nENV FROM_OTHER=1\nRUN echo o > /other\n"), root)
    text = "FROM busybox:1 AS b\nFROM misstep-base\nCOPY --from=busybox:1 /other /a\nCOPY --from=b /other /b\n"
    assert shown(root, tmp_path, text, "cat /a /b", images={"busybox:1": other}) == "o\no\n"


DOCKERS = """\
ARG TAG=bookworm
FROM misstep-base:${TAG} AS tools
ARG WORD=outer
ENV KEPT=yes P=/usr/lib/x.tar.gz
WORKDIR /build
RUN echo "$WORD $KEPT" > made && mkdir -p tree/sub && echo deep > tree/sub/f && ln -s /usr/bin/env tree/link && chmod 751 tree
SHELL ["/bin/bash", "-c"]
RUN [[ -n $BASH_VERSION ]] && echo bash > shell; echo $0 >> shell

FROM misstep-base:bookworm AS unused
COPY one.txt /not/copied

FROM tools
ENV A=1 B="b $KEPT" C='$KEPT' D=${KEPT:+set} E=${NONE:-none} F=a\\ b
ENV G=$A OLD=${F}
ENV H the rest  of it
RUN useradd -m -u 1500 agent
COPY --from=0 /build/made /build/shell /copied/
COPY --from=tools /build/tree /copied/tree
COPY --from=tools /build/sh*l renamed
COPY . /all
COPY dir/*.sh one.txt some/
COPY --chown=agent dir /owned
ADD data.tgz /unpacked/
COPY data.tgz /packed
COPY one.txt /copied
COPY dir /build/tree/sub
USER agent
WORKDIR /home/agent/deeper
RUN echo $HOME > /tmp/who; cd; touch mine
RUN ["sh", "-c", "echo $A $B > /tmp/array"]
"""
LOOK = (
    "cd /; find all build copied owned unpacked packed build/some tmp/who tmp/array home build/renamed | sort "
    "| xargs stat -c '%n %u %g %a %F' | grep -v '^build/some '; "
    "find all build copied owned unpacked build/some tmp/who tmp/array -type f | sort | xargs grep . ; pwd; id; "
    "env | grep -E '^([A-H]|OLD|KEPT|P|HOME)='| sort; readlink copied/tree/link"
)


@pytest.mark.slow
def test_docker_builds_the_same(root: Root, tmp_path: Path) -> None:
    """One Dockerfile, built by us and by a Docker engine on the same base: files, owners, modes, variables."""
    if not roots.base_tar().exists():
        pytest.skip("the Debian base is not built (misstep sandbox build)")
    file = context(tmp_path, DOCKERS)
    (file.parent / ".dockerignore").write_text("**/*.log\n!dir/keep.log\nDockerfile\n")
    for name in ("a.log", "dir/b.log", "dir/keep.log"):
        (file.parent / name).write_text("log\n")
    with tarfile.open(file.parent / "data.tgz", "w:gz") as tar:
        entry = tarfile.TarInfo("inner/file")
        entry.size, entry.uid, entry.gid, entry.mode = 3, 7, 8, 0o640
        tar.addfile(entry, io.BytesIO(b"abc"))
    script = f"docker build -q --network none -t misstep-test:one {file.parent} >&2 && docker run --rm --network none misstep-test:one bash -c {shlex.quote(LOOK)}; docker rmi -f misstep-test:one >&2"
    run = subprocess.run(
        [SCRIPTS / "with-dockerd", "bash", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "MISSTEP_PYTHON": sys.executable},
    )
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert "unpacked/inner/file" in run.stdout, run.stderr
    with BubblewrapSandbox(image.build(file, roots.find("base"))) as box:
        ours = box.exec(["bash", "-c", LOOK]).text
    assert ours == run.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUN true\n", ":1: RUN stands before the first FROM"),
        ("# nothing\n", "there is no FROM"),
        ("FROM ubuntu:24.04\n", ":1: no root stands for the image ubuntu:24.04"),
        ("FROM scratch\n", ":1: FROM scratch: an empty root"),
        ("FROM a b c d\n", ":1: FROM expected IMAGE [AS NAME]"),
        ("FROM misstep-base\n\nRUN echo why; exit 4\n", ":3: RUN ended with 4: why"),
        ("FROM misstep-base\nUSER nemo\nRUN true\n", ":3: RUN did not start: there is no user nemo"),
        ('FROM misstep-base\nRUN ["nonesuch"]\n', ":2: RUN did not start: nonesuch: No such file"),
        ("FROM misstep-base\nRUN --mount=type=secret,id=x true\n", ":2: RUN --mount=type=secret,id=x is not read here"),
        ("FROM misstep-base\nRUN --mount=from=x,target=/y true\n", ":2: RUN --mount="),
        ("FROM misstep-base\nCOPY absent /x\n", ":2: COPY absent does not exist"),
        ("FROM misstep-base\nCOPY *.none /x\n", ":2: COPY *.none does not exist"),
        ("FROM misstep-base\nCOPY ../../secret /x\n", ":2: COPY ../../secret is outside"),
        ("FROM misstep-base\nCOPY one.txt\n", ":2: COPY needs a source and a target"),
        ("FROM misstep-base\nCOPY --parents one.txt /x\n", ":2: COPY --parents is not read here"),
        ("FROM misstep-base\nCOPY --chmod=u+x one.txt /x\n", ":2: COPY --chmod=u+x: expected an octal number"),
        ("FROM misstep-base\nCOPY --chown=nemo one.txt /x\n", ":2: COPY --chown=nemo: there is no user nemo"),
        ("FROM misstep-base\nADD https://example.org/x /x\n", ":2: ADD of an address"),
        ("FROM misstep-base\nCOPY --from=other a b\n", ":2: no root stands for the image other"),
        ("FROM misstep-base\nCOPY --from=3 a b\n", ":2: COPY --from=3: there is no such stage before this one"),
        (
            "FROM misstep-base AS a\nFROM misstep-base\nCOPY --from=a /absent /x\n",
            ":3: COPY --from: /absent does not exist there",
        ),
        ("FROM misstep-base\nONBUILD RUN x\n", ":2: ONBUILD is not read here"),
        ("FROM misstep-base\nFETCH x\n", ":2: FETCH is no instruction of a Dockerfile"),
        ("FROM misstep-base\n<html>\n", ":2: expected an instruction"),
        ("FROM misstep-base\nRUN <<X\necho\n", ":2: the here-document X has no end"),
        ("FROM misstep-base\nSHELL /bin/bash\n", ":2: SHELL expected an array"),
        ("FROM misstep-base\nENV A\n", ":2: ENV expected NAME=VALUE"),
        ("FROM misstep-base\nENV A=1 B\n", ":2: ENV expected NAME=VALUE, found B"),
        ('FROM misstep-base\nENV A="${B:?no B here}"\n', ":2: ENV needs B: no B here"),
        ("FROM misstep-base\nENV A=${B!}\n", ":2: ENV has a substitution that is not known"),
        ("FROM misstep-base\nENV A=${B:-x\n", ":2: ENV has a substitution that is not closed"),
        ("FROM misstep-base\nENV A='x\n", ":2: ENV has a quote that is not closed"),
    ],
)
def test_faults_are_named_with_their_line(root: Root, tmp_path: Path, text: str, said: str) -> None:
    file = context(tmp_path, text)
    with pytest.raises(SandboxError) as caught:
        image.build(file, root, images={})
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_link_out_of_the_context_is_refused(root: Root, tmp_path: Path) -> None:
    file = context(tmp_path, "FROM misstep-base\nCOPY leak /x\n")
    (tmp_path / "secret").write_text("s")
    (file.parent / "leak").symlink_to(tmp_path / "secret")
    with pytest.raises(SandboxError, match="leads outside"):
        image.build(file, root)


def test_a_file_that_is_none(root: Root, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"absent/Dockerfile: No such file"):
        image.build(tmp_path / "absent" / "Dockerfile", root)
    (tmp_path / "Dockerfile").write_bytes(b"FROM \xff\xfe")
    with pytest.raises(SandboxError, match="expected text in UTF-8"):
        image.build(tmp_path / "Dockerfile", root)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("$A ${A} $B|", "1 1 |"),
        ("${B:-d} ${E:-d} ${E-d} ${B-d} ${A:-d}", "d d  d 1"),
        ("${A:+x} ${E:+x} ${E+x} ${B+x}", "x  x "),
        ("${B:-${A}2} ${B:-$P}", "12 /usr/lib/x.tar.gz"),
        ("${P#*/} ${P##*/} ${P%.*} ${P%%.*}", "usr/lib/x.tar.gz x.tar.gz /usr/lib/x.tar /usr/lib/x"),
        ("${P/\\//-} ${P//\\//-} ${P/lib/}", "-usr/lib/x.tar.gz -usr-lib-x.tar.gz /usr//x.tar.gz"),
        (r"\$A '$A' \"$A\" a\ b", '$A $A "1" a b'),
        ("\"a 'b' ${A}\"", "a 'b' 1"),
        ("$ $1 a$", "$ $1 a$"),
        ("${A:?x}", "1"),
    ],
)
def test_expansion(text: str, made: str) -> None:
    values = {"A": "1", "E": "", "P": "/usr/lib/x.tar.gz"}
    step = dockerfile.Instruction("ENV", text, "Dockerfile", 1)
    assert dockerfile.expand(text, values, "\\", step) == made
