"""Reading a Dockerfile, and what becomes of its instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from misstep.sandbox import Root, SandboxError, dockerfile
from misstep.sandbox.bubblewrap import BubblewrapSandbox

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
    made = dockerfile.build(file, root)
    assert made.workdir == "/srv/data"
    assert made.env == {"GREETING": "good day", "EMPTY": "", "LATER": "yes", "OLD": "form of it"}
    with BubblewrapSandbox(made) as box:
        seen = box.exec("cat greeting literal loop; echo $LATER").text
        assert seen == "good day, world 3\n/srv/data\ngood day\n1\n2\nyes\n".replace("good day\n1", "$GREETING\n1")
        seen = box.exec("cat /copied/one.txt /copied/sub/deep renamed.txt; bin/run.sh; cat made.txt").text
        assert seen == "one\ndeep\none\nran\nline of a document\n"
    assert dockerfile.build(file, root).layers == made.layers  # nothing is built again
    (file.parent / "one.txt").write_text("changed\n")
    again = dockerfile.build(file, root)
    assert again.layers != made.layers
    with BubblewrapSandbox(again) as box:
        assert box.exec("cat renamed.txt").text == "changed\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUN true\n", "expected one FROM, found 0"),
        ("FROM misstep-base\nFROM misstep-base\n", ":2: expected one FROM, found 2"),
        ("FROM ubuntu:24.04\n", ":1: no root stands for the image ubuntu:24.04"),
        ("FROM misstep-base\n\nRUN echo why; exit 4\n", ":3: RUN ended with 4: why"),
        ("FROM misstep-base\nCOPY absent /x\n", ":2: COPY absent does not exist"),
        ("FROM misstep-base\nCOPY ../../secret /x\n", ":2: COPY ../../secret is outside"),
        ("FROM misstep-base\nADD https://example.org/x /x\n", ":2: ADD of an address"),
        ("FROM misstep-base\nCOPY --from=other a b\n", ":2: COPY --from"),
        ("FROM misstep-base\nONBUILD RUN x\n", ":2: ONBUILD is not read here"),
        ("FROM misstep-base\n<html>\n", ":2: expected an instruction"),
        ("FROM misstep-base\nRUN <<X\necho\n", ":2: the here-document X has no end"),
    ],
)
def test_faults_are_named_with_their_line(root: Root, tmp_path: Path, text: str, said: str) -> None:
    file = context(tmp_path, text)
    with pytest.raises(SandboxError) as caught:
        dockerfile.build(file, root, images={})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_link_out_of_the_context_is_refused(root: Root, tmp_path: Path) -> None:
    file = context(tmp_path, "FROM misstep-base\nCOPY leak /x\n")
    (tmp_path / "secret").write_text("s")
    (file.parent / "leak").symlink_to(tmp_path / "secret")
    with pytest.raises(SandboxError, match="leads outside"):
        dockerfile.build(file, root)


def test_expansion() -> None:
    values = {"A": "1", "E": ""}
    text = r"$A ${A} ${B:-d} ${E:-d} ${A:+x} ${E:+x} \$A $B|"
    assert dockerfile.expand(text, values) == "1 1 d d x  $A |"
