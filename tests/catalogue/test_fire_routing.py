"""The eight scoped families: which tasks they are for."""

from __future__ import annotations

import pytest

from misstep.catalogue import get, missteps

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
            "Boot disk.img in qemu and configure its network. When it is up, I can ssh to port 2200 as admin from this host.",
            "Create a gRPC counter in counter.py. Start it in the background and leave it running; the server must listen on port 5055.",
            "Set up nginx with a custom 404 page. The web server should be accessible at http://localhost:8081 afterwards.",
            "Launch the virtual machine from router.qcow2 with its serial console on a socket, so that I can telnet to localhost 5001.",
            "Host a package index on localhost:8099 so that pip can install vectorlib from it. Keep the server running.",
            "Fix the proxy configuration in /etc/haproxy so that the proxy is reachable on port 8443 again.",
            "1. Install redis\n2. Configure a password\n3. Start the redis server in the background on port 6390",
            "Write and start the tally that SPEC.md describes. The tally must be running, on port 8077 of the loopback address, at the end.",
            "SPEC.md describes a service. It does not exist yet: write it, and have it running. Your session will be closed then.",
            "Build a chat daemon listening on a unix socket. Our monitor must be able to connect to it with tcp on port 99.",
        ),
        (
            "Read all prices from the shop at http://shop:8000 and save them to prices.csv.",
            "The ticket API is available at http://api:7000. Create a ticket named 'Printer' with its endpoint.",
            "Add a /health endpoint to the server in app.py and write a unit test for it.",
            "I cannot curl any public site from this box. Find out why the network is broken.",
            "Write a client that connects to the server on port 9000 and prints what it sends.",
            "Explain how the server in src/net starts listening on port 8080.",
            "Port the script to Python 3 so that it runs on Windows. Do not start the server.",
            "Refactor the service class: it should be running its jobs in a thread pool.",
            "Make a self-signed certificate for an internal server and store it in ssl/server.pem.",
            "Review the plan: the server must be listening before the tests start, why is it not?",
            "The unit test must be running on the port 4000 fixture before anything is merged.",
            "Describe a service in SPEC.md. Our editors have the tests running already.",
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
            "Set up a bare git repository that publishes by itself what is pushed to its branches, each below /srv/www.",
            "Provide a git server: pushing the branch web over ssh makes x.html available on the web server at http://host:8082.",
        ),
        (
            "Transform my GitHub repository into a personal website and push the changes back to GitHub.",
            "Set up an nginx web server on port 8080 that serves /var/www/html with request logging.",
            "Some commits of my web site have vanished from git log. Bring them back onto the main branch.",
            "Find and remove all API keys from this git repository.",
            "Write a git hook that refuses commits without a ticket number.",
            "Deploy the web server from the release archive, then tag the commit.",
            "Copy the bare git repository to /backup and list what is in /srv/www.",
            "Explain what a bare repository is and how git push works over https.",
            "Create a bare repository backup of this project under /backup.",
        ),
    ),
    "database-evidence": (
        (
            "The SQLite file /var/lib/shop/orders.db got corrupted. Get back the rows that can still be read, as orders.json.",
            "A database in WAL mode lies in /data. The write-ahead log seems encrypted with a simple XOR. Recover all records.",
            "Someone deleted entries from notes.sqlite. Restore the lost rows and write them to a CSV file.",
            "Our database was truncated during a power failure. Salvage the data that is still in cache.db.",
            "app.db says 'database disk image is malformed'. Please repair the database without losing rows.",
            "The WAL of the database is damaged, so that only part of the data is visible. Get back the missing records.",
            "Fix the corrupted SQLite database at ./inventory.db and extract the records into inventory.json.",
            "shop.db has its write-ahead log shop.db-wal beside it. A tool overwrote the first bytes of the log. What came last is only in the log.",
            "inventory.sqlite3 cannot be opened any more: file is not a database. Rescue the contents.",
        ),
        (
            "Somebody removed the file with the licence key. Recover the key.",
            "Add error handling for corrupted database files and restore the default values in that case.",
            "Fix the bug that deleted rows are still shown in the list; the data comes from a Postgres database.",
            "Write a migration that restores the lost foreign key in the users table.",
            "Create a SQLite database with three tables and import data.csv.",
            "Open the encrypted archive and extract the files from it; the PIN is short.",
            "Build SQLite from its sources with sanitizers and install it.",
            "The server lost power. Its start is recorded only in the log: find out when that was, the database is not needed.",
            "Explain how a SQLite write-ahead log may be truncated; the frames that count are only in the log.",
            "Write a unit test that recovers rows from a truncated database.",
            "The broken link in the README should point to the database docs. Fix it.",
        ),
    ),
    "exact-replacement": (
        (
            "Replace each API key in this repository with the placeholder <api-key>. Do not make any other changes.",
            "In draft.tex you may swap a word for one of its allowed synonyms (allowed.txt). No other changes.",
            "Substitute every British spelling by the American one from map.csv and leave everything else unchanged.",
            "Swap the old host name for the new one in all configs; the rest of each file must stay byte-identical.",
            "Use only permitted replacements from the table. Do not touch anything else in letter.md.",
            "Sanitize the logs: credentials become their placeholder values, no other modifications are allowed.",
            "Redact every password in these files with ****. Do not modify files that do not contain one, or any other text.",
            "These codes have to go: `AA-1` becomes `BB-2`, `AA-3` becomes `BB-4`. Everything else stays as it is, to the byte.",
            "In poem.txt replace 'thou' with 'you' without changing any other byte.",
        ),
        (
            "Find all winning moves for white and print them, one per line.",
            "Replace the custom implementation with strings.Contains.",
            "Replace the logging library with structlog. Do not change anything else in the module's public behaviour or implementation.",
            "Do not change the tests; fix the function so that they pass.",
            "Let's replace those functions with the standard ones and check if there are more.",
            "The flag `--fast` becomes `--quick` in the next release; update the docs and the parser.",
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
            "The source of the compiled program ./box is lost. Write box.c that does the same thing; outputs must be identical, and it must not call the original.",
            "Reproduce the executable's behaviour byte for byte in Rust without invoking the binary.",
            "Recreate ./render: your program's output must match the original executable exactly, source smaller than 5 KB.",
            "Decompile the ELF file and write an equivalent program whose output is identical, independent of the original.",
            "Clone the compiled program ./mix in C. Results have to be identical for each input, size no more than 1500 bytes.",
            "Provide a C source that gives the same output as the binary ./stamp, less than 900 characters.",
        ),
        (
            "Draw a picture like sunset.png with a C program under 3 kB.",
            "Write a C program of at most 4 kB that plays tic-tac-toe perfectly.",
            "Shrink photo.bin below 900 bytes with the codec in codec.c, without loss.",
            "Write a program that runs identically as Python and as C.",
            "Compile the binary for arm64 and check that it starts.",
            "Add a flag to the executable and write tests that its output is the same as before.",
            "Tell me which compiler built this binary, and what it prints.",
            "The build of the executable must be reproducible: two builds give identical files.",
        ),
    ),
    "token-accounting": (
        (
            "How many tokens does the chemistry domain of the lab-notes dataset have with the gpt-neox tokenizer?",
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
            "Train a tokenizer with a vocabulary of 8000 tokens on the corpus.",
            "Implement a function that counts the tokens of a dataset split with a tokenizer.",
            "Report the total number of tokens used by each session and the cost of the prompt.",
            "Download the dataset and the tokenizer, they must work without a network.",
            "Find the number of words per label in the dataset.",
        ),
    ),
    "complete-enumeration": (
        (
            "It is black's turn on the board. Should several winning moves exist, write every one of them, each on its own line.",
            "Write all valid solutions of the puzzle to out.txt, one per line.",
            "List every possible arrangement of the tiles that fits, each on its own line.",
            "Somewhere in disk.raw are codes of the form AB-1234. List all the matching codes line by line.",
            "Enumerate all the solutions of the equation below 1000 and list them all.",
            "Give all words which satisfy the three conditions; write one per line.",
            "Output all legal moves of the knight, one per line.",
            "There may be more than one correct answer. In that case give every one of them, one per line.",
        ),
        (
            "Listen to the recording and note the commands that are spoken, one per line, in commands.txt.",
            "Find the strongest reply for white and write it down.",
            "Write the names of all files in the folder, one per line.",
            "Replace every word with its allowed synonym, one per line, and change nothing else.",
            "Print the top three words with their frequency, one per line.",
            "Add support for multiple valid configurations, one per line, to the parser.",
            "Write all numbers from 1 to 100, one per line.",
            "Fix all failing tests and list every change that you made.",
        ),
    ),
}


# Further prompts, written after the patterns; "" is for no family at all.
HELD_OUT: tuple[tuple[str, str], ...] = (
    (
        "service-persistence",
        "Run the disk image in an emulator with VNC and keep the VM running in the background on port 5907.",
    ),
    (
        "service-persistence",
        "Make a gRPC service that stores pairs. Put it in kv.py, run it, and keep it running on port 5111.",
    ),
    (
        "service-persistence",
        "Build the wheel and serve it on localhost:8088 from a local package index so that pip finds it.",
    ),
    ("service-persistence", "Install a mail server. It must listen on port 2525 and deliver to local users."),
    (
        "service-persistence",
        "Start the emulator; wait until it is ready, then leave it in the background. I'll connect with telnet.",
    ),
    (
        "service-persistence",
        "Deploy the classifier as an HTTP service: POST /predict. It should listen on 0.0.0.0:6000.",
    ),
    ("service-persistence", "Please get the dashboard up so I can open http://localhost:3001 in my browser."),
    (
        "service-persistence",
        "Implement a REST API with /items. The application must be running on port 8000 when you finish.",
    ),
    (
        "database-evidence",
        "This SQLite database is in WAL mode, and the WAL is damaged. Fix it and recover all records as JSON.",
    ),
    (
        "exact-replacement",
        "Clean the repo of API keys: replace them by placeholders. Don't change files that hold no secrets.",
    ),
    (
        "exact-replacement",
        "Swap each listed word in a.txt for its synonym from b.txt, leave the rest of the file untouched.",
    ),
    (
        "binary-equivalence",
        "Clone the compiled program ./enigma in C: identical results, under 2k zipped, no call of the original.",
    ),
    (
        "complete-enumeration",
        "Find every possible assignment of shifts that satisfies the rules and write each on its own line.",
    ),
    (
        "token-accounting",
        "Tell me how many tokens the law domain of the open-notes dataset has, using the Mistral tokenizer.",
    ),
    ("", "Write a Dockerfile for the web server in ./app that exposes port 8080."),
    ("", "Our CI server is running out of disk space; write a script that cleans /var/ci of old builds."),
    ("", "Write a parser for nginx access logs: count requests per status and save report.json."),
    ("", "The web app crashes when running on port 80 without root. Change the default port to 8080 in config.py."),
    ("", "Add integration tests that start the server on a random port and curl /health."),
    ("", "Convert the flask app to async. The API should respond with JSON errors."),
    ("", "Write a systemd unit file for the daemon, but do not start it."),
    ("", "Connect to the database server on localhost:5432 and export the users table to users.csv."),
    ("", "Make a playable game that runs in the browser, as a single HTML file."),
    ("", "Port the server's handshake to Rust and keep the wire format identical."),
    ("", "Use the API at http://localhost:9000 to play the game. The server is running already."),
    ("", "Write a benchmark that measures how many requests per second the server on port 8080 can handle."),
    ("", "Rewrite the query so that it runs faster on the given SQLite database; results must be identical."),
    ("", "Recover the deleted branch in this repository."),
    ("", "Restore the backup of the Postgres database into a new container."),
    (
        "",
        "Users lost data because the sync overwrites local database entries. Fix the merge so that no entries get lost.",
    ),
    ("", "Rename the variable foo to bar in all files. Keep everything else unchanged."),
    ("", "Translate the README to German, keep code blocks unchanged."),
    ("", "Replace print statements with logging in src/. Do not change the public API."),
    ("", "Write a move generator in pure regex: rules.json must be less than 10MB and give all legal moves."),
    ("", "Modernise the COBOL program in Python; the output files must be identical to those of the original program."),
    ("", "Find all bugs in parser.c and fix them, describing each on a separate line."),
    ("", "List all files larger than 10MB, one per line, in big.txt."),
    ("", "Find the shortest path through the maze and write the moves one per line."),
    ("", "Tokenize the dataset with the Qwen tokenizer and save it in parquet, split by domain."),
    ("", "Set up GitHub Pages: pushing to main should publish the docs website."),
)


@pytest.mark.parametrize(("family", "prompt"), HELD_OUT)
def test_routing_of_other_prompts(family: str, prompt: str):
    found = [f for f in FAMILIES if get(f).eligible(prompt) is not None]
    assert found == ([family] if family else [])


def test_every_scoped_family_is_here():
    assert set(FAMILIES) <= {m.id for m in missteps() if m.scoped}
    assert set(ROUTING) == set(FAMILIES)
    for positive, negative in ROUTING.values():
        assert len(positive) >= 8 and len(negative) >= 8


def test_the_eleven_rules():
    rules = {(p.id, p.at, p.action, p.limit) for f in FAMILIES for p in get(f).policies}
    assert rules == {
        ("service-persistence", "stop", "instruct", 1),
        ("deployment-preservation", "before", "deny", 1),
        ("database-evidence", "before", "deny", None),
        ("exact-replacement/first-write", "before", "instruct", 1),
        ("exact-replacement/credentials", "stop", "instruct", 1),
        ("exact-replacement/words", "stop", "instruct", 1),
        ("latex-final-log", "stop", "instruct", 1),
        ("binary-equivalence/first-run", "before", "instruct", 1),
        ("binary-equivalence/measured", "stop", "instruct", 1),
        ("token-accounting", "stop", "instruct", 1),
        ("complete-enumeration", "stop", "instruct", 1),
    }


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
