"""The eight scoped families: which tasks they are for, and what their state recognises."""

from __future__ import annotations

import pytest

from misstep.catalogue import Fold, get, missteps
from misstep.catalogue.examples import parse

FAMILIES = (
    "service-persistence",
    "deployment-preservation",
    "database-evidence",
    "exact-replacement",
    "latex-final-log",
    "binary-equivalence",
    "token-accounting",
    "complete-enumeration",
)

# -- routing: family -> (tasks that are in scope, near ones that are not) -------------------------

ROUTING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "service-persistence": (
        (
            "Write a currency converter and run the server on port 4411. Requests to /rate return JSON.",
            "Boot disk.img in qemu. Afterwards I should be able to run `ssh -p 2200 admin@localhost` and get a shell.",
            "Create a gRPC counter in counter.py. Start it in the background and leave it running; the server must listen on port 5055.",
            "Set up nginx with a custom 404 page. The web server should be accessible at http://localhost:8081 afterwards.",
            "Launch the virtual machine from router.qcow2 in such a way that I can connect to it via telnet 127.0.0.1 5001.",
            "Host a package index on localhost:8099 so that pip can install vectorlib from it. Keep the server running.",
            "Fix the proxy configuration in /etc/haproxy so that the proxy is reachable on port 8443 again.",
            "1. Install redis\n2. Configure a password\n3. Start the redis server in the background on port 6390",
            "Build a chat daemon listening on a unix socket. Our monitor must be able to connect to it with tcp on port 99.",
        ),
        (
            "Scrape all titles from the shop at http://server:8000 and save them to titles.csv.",
            "The ticket API is available at http://api:7000. Create a ticket named 'Printer' with its endpoint.",
            "Add a /health endpoint to the server in app.py and write a unit test for it.",
            "I cannot curl example.com from this box. Find out why and tell me what to do.",
            "Write a client that connects to the server on port 9000 and prints what it sends.",
            "Explain how the server in src/net starts listening on port 8080.",
            "Port the script to Python 3 so that it runs on Windows. Do not start the server.",
            "Refactor the service class: it should be running its jobs in a thread pool.",
            "Make a self-signed certificate for an internal server and store it in ssl/server.pem.",
            "Review the plan: the server must be listening before the tests start, why is it not?",
            "Build the kernel so that I can boot it with qemu-system-x86_64 -kernel bzImage.",
        ),
    ),
    "deployment-preservation": (
        (
            "Set up a git server on this host. When I git push to it, a post-receive hook deploys the branch to nginx on port 8080.",
            "Create a bare repository at /srv/blog.git; every push to it must be published by the web server at http://localhost:9001/.",
            "Configure git hosting over ssh with a bare git repo. Pushed pages should be served over https://localhost:8444/.",
            "I want to run git push git@box:/repos/site main and then see the page on the webserver at http://box:8000/a.html.",
            "Install a git server with two branches; pushing to either one deploys it to its own directory of the Apache web root.",
            "Make a git server where a commit pushed to 'live' is available at http://localhost:7070/index.html within a second.",
            "Host project.git as a bare repo. Its post-receive hook must publish the docs folder to the nginx web root on each push.",
            "Provide a git server for me: git clone user@host:/git/x, then git push origin web, and curl http://host:8082/x.html shows the file.",
        ),
        (
            "Transform my GitHub repository into a personal website and push the changes back to GitHub.",
            "Set up an nginx web server on port 8080 that serves /var/www/html with request logging.",
            "I made changes to my site but cannot find them after a git checkout. Merge them into master.",
            "Find and remove all API keys from this git repository.",
            "Write a git hook that refuses commits without a ticket number.",
            "Deploy the web server from the release archive, then tag the commit.",
            "Explain what a bare repository is and how git push works over https.",
            "Create a bare repository backup of this project under /backup.",
        ),
    ),
    "database-evidence": (
        (
            "The SQLite file /var/lib/shop/orders.db got corrupted. Recover as many rows as possible into orders.json.",
            "A database in WAL mode lies in /data. The write-ahead log seems encrypted with a simple XOR. Recover all records.",
            "Someone deleted entries from notes.sqlite. Restore the lost rows and write them to a CSV file.",
            "Our database was truncated during a power failure. Salvage the data that is still in cache.db.",
            "app.db says 'database disk image is malformed'. Please repair the database without losing rows.",
            "The WAL of the database is damaged, so that only part of the data is visible. Get back the missing records.",
            "Fix the corrupted SQLite database at ./inventory.db and extract the records into inventory.json.",
            "inventory.sqlite3 cannot be opened any more: file is not a database. Rescue the contents.",
        ),
        (
            "A file with a password was deleted from this folder. Recover the password.",
            "Add error handling for corrupted database files and restore the default values in that case.",
            "Fix the bug that deleted rows are still shown in the list; the data comes from a Postgres database.",
            "Write a migration that restores the lost foreign key in the users table.",
            "Create a SQLite database with three tables and import data.csv.",
            "Crack the encrypted archive and extract the files from it.",
            "Compile SQLite with coverage and make it available in the PATH.",
            "Write a unit test that recovers rows from a truncated database.",
            "The broken link in the README should point to the database docs. Fix it.",
        ),
    ),
    "exact-replacement": (
        (
            "Replace each API key in this repository with the placeholder <api-key>. Do not make any other changes.",
            "The only edits you may make are replacing words of draft.tex with synonyms from allowed.txt.",
            "Substitute every British spelling by the American one from map.csv and leave everything else unchanged.",
            "Swap the old host name for the new one in all configs; the rest of each file must stay byte-identical.",
            "Use only permitted replacements from the table. Do not touch anything else in letter.md.",
            "Sanitize the logs: credentials become their placeholder values, no other modifications are allowed.",
            "Redact every password in these files with ****. Do not modify files that do not contain one, or any other text.",
            "In poem.txt replace 'thou' with 'you' without changing any other byte.",
        ),
        (
            "Find all winning moves for white and print them, one per line.",
            "Replace the custom implementation with strings.Contains.",
            "Replace the logging library with structlog. Do not change anything else in the module's public behaviour or implementation.",
            "Do not change the tests; fix the function so that they pass.",
            "Let's replace those functions with the standard ones and check if there are more.",
            "Rewrite the README, keep the badges unchanged.",
            "Replace deprecated calls with their successors wherever you find them.",
            "Write the moves to moves.txt, one per line, and do not change other files.",
        ),
    ),
    "latex-final-log": (
        (
            "Make thesis.tex compile with pdflatex without any overfull hbox warnings.",
            "There must be no overfull boxes when main.tex is built with xelatex.",
            "Shorten the LaTeX text so that the overfull hbox warnings disappear. Overfull boxes must be gone.",
            "Edit words in paper.tex until lualatex reports zero overfull hboxes.",
            "The log of latexmk should not contain 'Overfull \\hbox'; adjust report.tex.",
            "Remove all overfull hbox warnings from this LaTeX document.",
            "Ensure the tex file builds and produces no Overfull messages.",
            "Fix the overfull hbox in chapter2.tex.",
        ),
        (
            "Compile thesis.tex with pdflatex. Overfull hbox warnings are fine.",
            "Convert report.tex to HTML.",
            "Fix the undefined references in main.tex.",
            "The bus is overfull; plan a second one with no seats left empty.",
            "Explain what an overfull hbox is in LaTeX.",
            "Write a LaTeX letter that fits on one page.",
            "Ignore overfull boxes for now and fix the errors of the LaTeX build.",
            "Add a package to main.tex that draws the flow chart.",
        ),
    ),
    "binary-equivalence": (
        (
            "There is a compiled program ./oracle. Write a C program oracle2.c with identical output. It must be under 4 kB when compressed.",
            "Reverse engineer the binary at /opt/gen and re-implement it so that it prints exactly the same; at most 2000 bytes of source.",
            "I've compiled a program at ./box. Write box.c that performs the same operation; outputs must be identical, and it must not call the original.",
            "Reproduce the executable's behaviour byte for byte in Rust without invoking the binary.",
            "Recreate ./render: your program's output must match the original executable exactly, source smaller than 5 KB.",
            "Decompile the ELF file and write an equivalent program whose output is identical, independent of the original.",
            "Clone the compiled program ./mix in C. Results have to be identical for each input, size no more than 1500 bytes.",
            "Provide a C source that gives the same output as the binary ./stamp, less than 900 characters.",
        ),
        (
            "Render an image as close as possible to image.ppm with a C program under 3 kB.",
            "Write a dependency-free C file that samples from the model; it must be <5000 bytes.",
            "Compress data.txt to at most 2500 bytes so that ./decomp gives exactly data.txt.",
            "Write a program that runs identically as Python and as C.",
            "Compile the binary for arm64 and check that it starts.",
            "Add a flag to the executable and write tests that its output is the same as before.",
            "Figure out what kind of binary data.hex is, and tell me the output of the program.",
            "The build of the executable must be reproducible: two builds give identical files.",
        ),
    ),
    "token-accounting": (
        (
            "How many tokens are in the chemistry domain of the lab-notes dataset? Use the Qwen2.5 tokenizer.",
            "Count the tokens of the validation split of the corpus with the gpt2 tokenizer, over all text fields.",
            "Using tiktoken, report the total number of tokens in the 'poetry' category of ./books.parquet.",
            "What is the token count of the rows with label 'spam' in this dataset under bert-base-uncased's tokenizer?",
            "Tell me the number of Llama tokens of the French subset of the dataset on Hugging Face.",
            "Sum of tokens for all records whose source is 'forum' in corpus.jsonl; the tokenizer is sentencepiece.",
            "Compute how many tokens the science topic has in the dataset (tokenizer: t5-base), prompts and answers together.",
            "Give the size in tokens of the legal section of the corpus, tokenized with GPT-4's BPE.",
        ),
        (
            "Count how many API tokens of each user category are expired.",
            "Add a token count to the usage report, split by model.",
            "How many rows of the dataset belong to the science domain?",
            "Train a tokenizer on the corpus with 8000 tokens.",
            "Implement a function that counts the tokens of a dataset split with a tokenizer.",
            "Report the total number of tokens used by each session and the cost of the prompt.",
            "Cache the model and its tokenizer so that I can use the dataset offline.",
            "Find the number of words per label in the dataset.",
        ),
    ),
    "complete-enumeration": (
        (
            "It is black's turn on the board. If there are multiple winning moves, print them all, one per line.",
            "Write all valid solutions of the puzzle to out.txt, one per line.",
            "List every possible arrangement of the tiles that fits, each on its own line.",
            "Find the passwords hidden in the image and write each matching password, one per line.",
            "Enumerate all the solutions of the equation below 1000 and list them all.",
            "Give all words which satisfy the three conditions; write one per line.",
            "Output all legal moves of the knight, one per line.",
            "There may be more than one correct answer. In that case give every one of them, one per line.",
        ),
        (
            "Transcribe the video and write the moves the player types, one per line, to moves.txt.",
            "Find the best move for white and write it to move.txt.",
            "Write the names of all files in the folder, one per line.",
            "Replace every word with its allowed synonym, one per line, and change nothing else.",
            "Print the top three words with their frequency, one per line.",
            "Add support for multiple valid configurations, one per line, to the parser.",
            "Write all numbers from 1 to 100, one per line.",
            "Fix all failing tests and list every change that you made.",
        ),
    ),
}


def test_every_scoped_family_is_here():
    assert set(FAMILIES) <= {m.id for m in missteps() if m.scoped}
    assert set(ROUTING) == set(FAMILIES)
    for positive, negative in ROUTING.values():
        assert len(positive) >= 8 and len(negative) >= 8


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_in_scope_are_routed(family: str):
    missed = [p for p in ROUTING[family][0] if get(family).eligible(p) is None]
    assert not missed


@pytest.mark.parametrize("family", FAMILIES)
def test_near_tasks_are_not_routed(family: str):
    wrong = {p: w for p in ROUTING[family][1] if (w := get(family).eligible(p)) is not None}
    assert not wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_evidence_is_short_and_from_the_prompt(family: str):
    for prompt in ROUTING[family][0]:
        words = get(family).eligible(prompt)
        assert words and len(words) <= 120
        assert words.split(" + ")[0].removesuffix("...").lower() in " ".join(prompt.split()).lower()


def test_families_do_not_reach_into_each_other():
    """A task of one family is routed to another only where it really is of both."""
    both = {
        ("deployment-preservation", "service-persistence"),
        ("exact-replacement", "latex-final-log"),
    }
    for owner, (positive, _) in ROUTING.items():
        for prompt in positive:
            also = {f for f in FAMILIES if f != owner and get(f).eligible(prompt) is not None}
            assert all((owner, f) in both or (f, owner) in both for f in also), (prompt, also)


# -- state: what a call counts as ----------------------------------------------------------------


def follow(family: str, *items: dict) -> tuple[list[tuple[int, bool | None]], list[tuple[str, int]], bool | None]:
    """(verdicts, firings, behaviour marker) of a stream in the notation of the examples."""
    fold = Fold([get(family)])
    for event in parse({"name": "test", "events": list(items)}).events:
        fold.push(event)
    found = fold.finish()
    verdicts = [(v.at, v.holds) for v in found.verdicts.get(family, [])]
    return verdicts, [(f.policy, f.at) for f in found.firings], found.behaved.get(family)


SERVE = {"prompt": "Write a clock API and run the server on port 4000. It must be running when I look."}
PROBE = {"run": "curl -s localhost:4000/now", "exit": 0, "output": "12:00"}
DONE = {"stop": "It runs."}


@pytest.mark.parametrize(
    ("launch", "holds"),
    [
        ("setsid uvicorn clock:app --port 4000 > log 2>&1 < /dev/null &", False),
        ("setsid nohup uvicorn clock:app --port 4000 &> log &", False),
        ("tmux new-session -d -s clock 'uvicorn clock:app --port 4000'", False),
        ("screen -dmS clock uvicorn clock:app --port 4000", False),
        ("gunicorn -D -b :4000 clock:app", False),
        ("systemd-run --user uvicorn clock:app --port 4000", False),
        ("uvicorn clock:app --port 4000 &", True),
        ("uvicorn clock:app --port 4000 > log 2>&1 &", True),
        ("setsid uvicorn clock:app --port 4000 &", True),
        ("(cd srv && uvicorn clock:app --port 4000 > log 2>&1 &) ; sleep 1", True),
        ("timeout 5 uvicorn clock:app --port 4000", True),
        ("bash -c 'uvicorn clock:app --port 4000 &'", True),
        ("nohup uvicorn clock:app --port 4000 > log 2>&1 &", None),
        ("nohup uvicorn clock:app --port 4000 &", True),
        ("ssh box 'uvicorn clock:app --port 4000 > log 2>&1 &'", None),
    ],
)
def test_service_sessions(launch: str, holds: bool | None):
    verdicts, firings, behaved = follow("service-persistence", SERVE, {"run": launch, "exit": 0}, PROBE, DONE)
    assert verdicts == [(5, holds)]
    assert firings == ([("service-persistence", 5)] if holds else [])
    assert behaved is (holds is False)


def test_a_probe_in_the_launching_call_is_not_a_later_one():
    launch = {
        "run": "setsid uvicorn clock:app --port 4000 &> log < /dev/null & sleep 1; curl localhost:4000",
        "exit": 0,
    }
    assert follow("service-persistence", SERVE, launch, DONE)[0] == [(3, True)]
    assert follow("service-persistence", SERVE, launch, PROBE, DONE)[0] == [(5, False)]


def test_a_probe_that_failed_has_reached_nothing():
    launch = {"run": "setsid uvicorn clock:app --port 4000 &> log < /dev/null &", "exit": 0}
    refused = {"run": "curl -s localhost:4000/now", "exit": 7, "output": "connection refused"}
    assert follow("service-persistence", SERVE, launch, refused, DONE)[0] == [(5, True)]


def test_a_request_to_a_public_host_is_no_probe():
    launch = {"run": "setsid uvicorn clock:app --port 4000 &> log < /dev/null &", "exit": 0}
    elsewhere = {"run": "curl -s https://worldtime.example.com/now", "exit": 0, "output": "12:00"}
    assert follow("service-persistence", SERVE, launch, elsewhere, DONE)[0] == [(5, True)]


def test_a_launch_after_the_probe_needs_a_new_probe():
    launch = {"run": "setsid uvicorn clock:app --port 4000 &> log < /dev/null &", "exit": 0}
    assert follow("service-persistence", SERVE, launch, PROBE, launch, DONE)[0] == [(7, True)]


def test_the_nudge_is_given_once():
    launch = {"run": "uvicorn clock:app --port 4000 &", "exit": 0}
    verdicts, firings, _ = follow("service-persistence", SERVE, launch, PROBE, DONE, PROBE, DONE)
    assert [at for at, holds in verdicts if holds] == [5, 8]
    assert firings == [("service-persistence", 5)]


def test_a_start_script_counts_as_what_it_launches():
    attached = {"write": "start.sh", "text": "#!/bin/sh\nuvicorn clock:app --port 4000 &\n"}
    detached = {
        "write": "start.sh",
        "text": "#!/bin/sh\nsetsid uvicorn clock:app --port 4000 > log 2>&1 < /dev/null &\n",
    }
    run = {"run": "bash start.sh", "exit": 0}
    assert follow("service-persistence", SERVE, attached, run, PROBE, DONE)[0] == [(7, True)]
    assert follow("service-persistence", SERVE, detached, run, PROBE, DONE)[0] == [(7, False)]


def test_any_python_script_is_not_a_service():
    """Taking every script for a service made an earlier policy fire on tasks that start none."""
    run = {"run": "python3 convert.py data.csv", "exit": 0}
    assert follow("service-persistence", SERVE, run, DONE) == ([], [], False)


DAMAGED = {"prompt": "The SQLite database /data/shop.db is corrupted. Recover as many rows as possible into rows.json."}
SIDES = {"run": "ls -la /data", "exit": 0, "output": "shop.db\nshop.db-wal\nshop.db-shm"}
ALONE = {"run": "ls -la /data", "exit": 0, "output": "shop.db"}
OPEN = {"run": "sqlite3 /data/shop.db .tables", "exit": 0}


@pytest.mark.parametrize(
    ("copy", "enough"),
    [
        ("cp -a /data /root/evidence", True),
        ("cp -r /data/ /root/evidence/", True),
        ("cp /data/shop.db* /root/evidence/", True),
        ("cp /data/* /root/evidence/", True),
        ("cp /data/shop.db /data/shop.db-wal /data/shop.db-shm /root/evidence/", True),
        ("tar czf /root/evidence.tgz /data", True),
        ("rsync -a /data/ /root/evidence/", True),
        ("cp /data/shop.db /root/evidence/", False),
        ("cp /data/shop.db /data/shop.db-shm /root/evidence/", False),
        ("cp /data/readme.txt /root/evidence/", False),
        ("echo cp -a /data /root/evidence", False),
    ],
)
def test_what_copy_suffices(copy: str, enough: bool):
    verdicts, firings, behaved = follow("database-evidence", DAMAGED, SIDES, {"run": copy, "exit": 0}, OPEN)
    assert verdicts == [(5, not enough)]
    assert firings == ([] if enough else [("database-evidence", 5)])
    assert behaved is enough


def test_a_plain_copy_suffices_only_where_a_listing_showed_no_side_files():
    copy = {"run": "cp /data/shop.db /root/shop.bak", "exit": 0}
    assert follow("database-evidence", DAMAGED, ALONE, copy, OPEN)[0] == [(5, False)]
    assert follow("database-evidence", DAMAGED, SIDES, copy, OPEN)[0] == [(5, True)]
    assert follow("database-evidence", DAMAGED, copy, OPEN)[0] == [(3, True)]


@pytest.mark.parametrize(
    ("command", "mutates"),
    [
        ("sqlite3 /data/shop.db 'select 1'", True),
        ("sqlite3 /data/shop.db .recover > /root/rows.sql", True),
        ("python3 -c \"import sqlite3; sqlite3.connect('/data/shop.db')\"", True),
        ("truncate -s 0 /data/shop.db-wal", True),
        ("rm /data/shop.db-wal", True),
        ("mv /data/shop.db /data/old.db", True),
        ("dd if=/root/x of=/data/shop.db", True),
        ("sqlite3 'file:/data/shop.db?mode=ro' .tables", False),
        ("sqlite3 -readonly /data/shop.db .tables", False),
        ("python3 -c \"import sqlite3; sqlite3.connect('file:/data/shop.db?mode=ro', uri=True)\"", False),
        ("hexdump -C /data/shop.db | head", False),
        ("strings /data/shop.db-wal", False),
        ("sqlite3 /root/scratch.db 'create table t(a)'", False),
        ("sqlite3 :memory: 'select 1'", False),
        ("echo 'sqlite3 /data/shop.db .tables' > notes.txt", False),
        ("cat > plan.sh <<'X'\nsqlite3 /data/shop.db .dump\nX", False),
    ],
)
def test_what_may_change_the_evidence(command: str, mutates: bool):
    verdicts, firings, _ = follow("database-evidence", DAMAGED, {"run": command, "exit": 0})
    assert verdicts == ([(1, True)] if mutates else [])
    assert firings == ([("database-evidence", 1)] if mutates else [])


def test_the_denial_repeats_until_a_copy_exists():
    copy = {"run": "cp -a /data /root/evidence", "exit": 0}
    blocked = {**OPEN, "fault": "refused", "failed": True}
    verdicts, firings, behaved = follow("database-evidence", DAMAGED, blocked, blocked, copy, OPEN)
    assert firings == [("database-evidence", 1), ("database-evidence", 3)]
    assert verdicts == [(7, False)]
    assert behaved is True


def test_a_database_that_is_to_be_made_is_no_evidence():
    task = {
        "prompt": "The SQLite database /data/shop.db is damaged. Recover its rows into a new database /data/good.db."
    }
    make = {"run": "sqlite3 /data/good.db 'create table t(a)'", "exit": 0}
    assert follow("database-evidence", task, make)[0] == []
    assert follow("database-evidence", task, make, OPEN)[0] == [(3, True)]


def test_a_refused_call_leaves_no_trace():
    state = get("database-evidence").State()
    fold = Fold([get("database-evidence")])
    blocked = {**OPEN, "fault": "refused", "failed": True}
    for event in parse({"name": "t", "events": [DAMAGED, blocked]}).events:
        fold.push(event)
    state.names, state.asked = ["shop.db"], True
    assert vars(fold.runs[0].state) == vars(state)


DEPLOY = {
    "prompt": "Set up a git server: a push to the bare repository /git/web.git deploys to nginx at http://localhost:8080."
}
BARE = {"run": "git init --bare /git/web.git", "exit": 0}
HOOK = {"write": "/git/web.git/hooks/post-receive", "text": "GIT_WORK_TREE=/var/www/web git checkout -f"}
PUSHED = {"run": "cd /tmp/t && git push origin main", "exit": 0, "output": "   1f..2e  main -> main"}


@pytest.mark.parametrize(
    ("command", "destroys"),
    [
        ("rm -rf /var/www/web/*", True),
        ("rm -rf /var/www", True),
        ("cd /var/www && rm -f web/index.html", True),
        ("git push origin --delete main", True),
        ("git push origin :main", True),
        ("git push --force origin main", True),
        ("git --git-dir=/git/web.git update-ref -d refs/heads/main", True),
        ("git -C /git/web.git branch -D main", True),
        ("cd /git/web.git && git reset --hard HEAD~1", True),
        ("rm -rf /tmp/t", False),
        ("cd /tmp/t && git reset --hard", False),
        ("cd /tmp && rm -rf t", False),
        ("git push origin main", False),
        ("rm -f ~/notes.txt", False),
        ("git commit -m 'rm -rf /var/www/web'", False),
    ],
)
def test_what_destroys_a_deployment(command: str, destroys: bool):
    verdicts, firings, behaved = follow(
        "deployment-preservation", DEPLOY, BARE, HOOK, PUSHED, {"run": command, "exit": 0}, DONE
    )
    assert verdicts == ([(7, True)] if destroys else [(9, False)])
    assert firings == ([("deployment-preservation", 7)] if destroys else [])
    assert behaved is not destroys


EXACT = {"prompt": "Replace the old terms in manual.md by those of terms.csv. Do not change anything else."}


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("sed -i 's/a/b/' manual.md", True),
        ("perl -pi -e 's/a/b/' manual.md", True),
        ("python3 - <<'X'\nt = open('manual.md').read()\nopen('manual.md', 'w').write(t.replace('a', 'b'))\nX", True),
        ("patch -p1 < fix.patch", True),
        ("sed 's/a/b/' manual.md > manual.new && mv manual.new manual.md", True),
        ("sed 's/a/b/' manual.md | head", False),
        ("grep -n a manual.md", False),
        ("cp manual.md /tmp/manual.orig", False),
        ('echo "sed -i s/a/b/ manual.md"', False),
    ],
)
def test_what_writes_under_the_map(command: str, writes: bool):
    _, firings, _ = follow("exact-replacement", EXACT, {"run": command, "exit": 0}, DONE)
    fired = [("exact-replacement/first-write", 1), ("exact-replacement/words", 3)]
    assert firings == (fired if writes else [])


@pytest.mark.parametrize(
    ("command", "holds"),
    [
        ("diff manual.orig manual.md", False),
        ("cmp manual.orig manual.md", False),
        ("git diff", False),
        ("git diff --word-diff manual.md", False),
        (
            "python3 -c \"import difflib; print(*difflib.unified_diff(open('a').readlines(), open('manual.md').readlines()))\"",
            False,
        ),
        ("git diff --stat", True),
        ("cat manual.md", True),
        ("grep -c b manual.md", True),
        ("python3 verify.py", None),
    ],
)
def test_what_compares(command: str, holds: bool | None):
    write = {"run": "sed -i 's/a/b/' manual.md", "exit": 0}
    verdicts, _, behaved = follow("exact-replacement", EXACT, write, {"run": command, "exit": 0}, DONE)
    assert verdicts == [(5, holds)]
    assert behaved is (None if holds is None else not holds)


BOXES = {"prompt": "Edit words in paper.tex until pdflatex gives no overfull hbox warnings."}


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        ("grep Overfull paper.log", False),
        ("rg -c 'Overfull' paper.log", False),
        ("awk '/Overfull/' paper.log", False),
        ("python3 -c \"print('Overfull' in open('paper.log').read())\"", False),
        ("grep -n Warning paper.log", None),
        ("tail -40 paper.log", None),
        ("ls -l paper.pdf", True),
        ("echo no Overfull boxes", True),
    ],
)
def test_what_searches_the_final_log(after: str, holds: bool | None):
    build = {"run": "pdflatex paper.tex > /dev/null", "exit": 0}
    assert follow("latex-final-log", BOXES, build, {"run": after, "exit": 0}, DONE)[0] == [(5, holds)]
    assert follow("latex-final-log", BOXES, {"run": after, "exit": 0}, build, DONE)[0] == [(5, True)]


@pytest.mark.parametrize(
    ("output", "adds_up"),
    [
        ("title: 1,200\ntext: 8,800\ntotal: 10,000", True),
        ("total 10000 = 1200 + 3800 + 5000", True),
        ("prompt 1200\nanswer 8800\nsum 10001", False),
        ("offset 10000\noffset 20000\noffset 30000", False),
        ("10000", False),
        ("10000\n10000", False),
        ("row 0 of 500, 2024-01-02", False),
        ("", False),
    ],
)
def test_subtotals_reconcile(output: str, adds_up: bool):
    from misstep.catalogue.token_accounting import reconciles

    assert reconciles(output) is adds_up


@pytest.mark.parametrize(
    ("command", "holds"),
    [
        ("cmp a.out.txt b.out.txt; wc -c again.c", False),
        ("diff <(./oracle 3) <(./again 3) && stat -c %s again.c", False),
        ("md5sum a.out.txt b.out.txt; ls -l again.c", False),
        ("python3 -c \"import filecmp; print(filecmp.cmp('a', 'b'))\"; du -b again.c", False),
        ("cmp a.out.txt b.out.txt", True),
        ("wc -c again.c", True),
        ("./oracle 3; ./again 3", True),
        ("python3 versus.py", None),
    ],
)
def test_what_measures_a_candidate(command: str, holds: bool | None):
    task = {"prompt": "Re-implement the binary ./oracle in C with identical output, in less than 2000 bytes of source."}
    build = {"run": "gcc -O2 -o again again.c", "exit": 0}
    assert follow("binary-equivalence", task, build, {"run": command, "exit": 0}, DONE)[0] == [(5, holds)]
    assert follow("binary-equivalence", task, {"run": command, "exit": 0}, build, DONE)[0] == [(5, True)]


@pytest.mark.parametrize(
    ("build", "program"),
    [
        ("gcc -o cand cand.c", "cand"),
        ("gcc cand.c", "a.out"),
        ("clang -O2 cand.c -obin/cand", "cand"),
        ("rustc -O cand.rs -o cand", "cand"),
        ("cd src && g++-13 -std=c++20 x.cc -o ../cand", "cand"),
    ],
)
def test_the_first_run_of_a_candidate(build: str, program: str):
    task = {"prompt": "Re-implement the binary ./oracle in C with identical output, in less than 2000 bytes of source."}
    run = {"run": f"./{program} 3", "exit": 0}
    original = {"run": "./oracle 3", "exit": 0}
    first = [("binary-equivalence/first-run", 5)]
    assert follow("binary-equivalence", task, original, {"run": build, "exit": 0}, run, run)[1] == first
    assert follow("binary-equivalence", task, original, {"run": f"{build} -c", "exit": 0}, original)[1] == []


def test_credentials_and_words_are_different_rules():
    item = get("exact-replacement")
    credentials, words = item.policies[1:]
    secret = "Replace every API key in the repository with the placeholder <key>. Make no other changes."
    term = "Replace the old terms in manual.md by those of terms.csv. Do not change anything else."
    assert credentials.eligible(item, secret) and words.eligible(item, secret) is None
    assert words.eligible(item, term) and credentials.eligible(item, term) is None


# -- the fold over calls -------------------------------------------------------------------------


def test_calls_that_overlap_are_judged_each_by_its_own_result():
    """Hosts that run calls in parallel report Before, Before, After, After."""
    events = parse({"name": "t", "events": [DAMAGED, OPEN, {**OPEN, "fault": "refused", "failed": True}]}).events
    prompt, first, first_done, second, second_done = events
    fold = Fold([get("database-evidence")])
    for index, event in enumerate([prompt, first, second, second_done, first_done]):
        event.index = index
        fold.push(event)
    assert [(v.at, v.holds) for v in fold.finish().verdicts["database-evidence"]] == [(1, True)]


def test_a_call_without_a_result_counts_as_run():
    assert follow("database-evidence", DAMAGED, {**OPEN, "result": False})[0] == [(1, True)]
    assert follow("database-evidence", DAMAGED, {**OPEN, "result": False}, DONE)[0] == [(1, True)]


def test_what_is_out_of_scope_is_not_followed():
    fold = Fold([get("database-evidence")])
    for event in parse({"name": "t", "events": [{"prompt": "Print the tables of shop.db."}, OPEN, DONE]}).events:
        fold.push(event)
    found = fold.finish()
    assert (found.verdicts, found.firings, found.eligible, found.behaved) == ({}, [], {}, {})


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("Keep the server running.", r"server running", True),
        ("Do not keep the server running.", r"server running", False),
        ("You need not start it; keep the server running.", r"server running", True),
        ("Finish without leaving a server running.", r"server running", False),
        ("Never stop, keep the server running.", r"server running", True),
    ],
)
def test_denied_words_do_not_count(text: str, words: str, found: bool):
    from misstep.catalogue._tasks import first

    assert (first(text, words) is not None) is found


def test_long_prompts_are_read_in_linear_time():
    import time

    prompt = "Replace the service that is running on the server and push all possible moves to the database. " * 3000
    start = time.process_time()
    for family in FAMILIES:
        get(family).eligible(prompt)
    assert time.process_time() - start < 1.5
