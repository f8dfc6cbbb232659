"""Credentials are hidden, ordinary code is left alone."""

from __future__ import annotations

import pytest

from misstep.scan.record import cut, ends
from misstep.scan.redact import MARK, redact

# Made up, in parts, so that no scanner of this repository takes them for real ones.
SECRETS = {
    "aws key id": "AKIA" + "ABCDEFGHIJKLMNOP",
    "github": "ghp_" + "a1B2c3D4e5" * 4,
    "github fine": "github_pat_" + "11ABCDEFG0" * 3,
    "hugging face": "hf_" + "AbCdEfGhIjKlMnOpQrSt",
    "slack": "xoxb-" + "1234567890-abcdefGHIJ",
    "openai": "sk-" + "proj-abcDEF123456789012345",
    "anthropic": "sk-" + "ant-api03-abcDEF123456789012345",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "abc_DEF-123",
    "npm": "npm_" + "abcdefghijABCDEFGHIJ0123456789abcdef",
}


@pytest.mark.parametrize("name", SECRETS)
def test_tokens_by_their_form(name: str):
    secret = SECRETS[name]
    assert redact(f"use {secret} here") == f"use {MARK} here"
    assert redact(f'X="{secret}"') == f'X="{MARK}"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git clone https://me:s3cr3t@example.org/x.git", f"git clone https://me:{MARK}@example.org/x.git"),
        ("postgres://app:hunter2@db:5432/x", f"postgres://app:{MARK}@db:5432/x"),
        ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", f"export AWS_SECRET_ACCESS_KEY={MARK}"),
        ("DB_PASSWORD=swordfish ./run", f"DB_PASSWORD={MARK} ./run"),
        ('{"api_key": "abc123def"}', f'{{"api_key": "{MARK}"}}'),
        ("password: 'correct horse'", f"password: '{MARK}'"),
        ('PASSWORD="correct horse battery" ./run', f'PASSWORD="{MARK}" ./run'),
        ("""x = {"password": "it's a long one", "b": 1}""", f"""x = {{"password": "{MARK}", "b": 1}}"""),
        ("tool --password 'correct horse' --x", f"tool --password '{MARK}' --x"),
        ('tool --db-password="correct horse" --x', f'tool --db-password="{MARK}" --x'),
        ("sshpass -p 'correct horse' ssh h", f"sshpass -p '{MARK}' ssh h"),
        ("curl -u 'me:correct horse' http://x", f"curl -u 'me:{MARK}' http://x"),
        ("mysql -u root -pSECRET shop", f"mysql -u root -p{MARK} shop"),
        ("mysqldump -P 3306 -p'correct horse' shop | gzip", f"mysqldump -P 3306 -p'{MARK}' shop | gzip"),
        ("mariadb -psecret -e 'show tables'", f"mariadb -p{MARK} -e 'show tables'"),
        ("curl -H 'Authorization: Bearer abcdef1234567890'", f"curl -H 'Authorization: Bearer {MARK}'"),
        ("curl -H 'X-Api-Key: abcdef123'", f"curl -H 'X-Api-Key: {MARK}'"),
        ("curl -u admin:letmein http://x", f"curl -u admin:{MARK} http://x"),
        ("tool --password letmein --x", f"tool --password {MARK} --x"),
        ("tool --token=abc.def", f"tool --token={MARK}"),
        ("sshpass -p letmein ssh h", f"sshpass -p {MARK} ssh h"),
    ],
)
def test_values_by_their_name(text: str, shown: str):
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens = 4096",
        "token = get_token(user)",
        "def login(password: str) -> None:",
        "password = os.environ.get('X')",
        "const token: string = next",
        'echo $API_KEY; curl -H "Authorization: Bearer $TOKEN"',
        "API_KEY=${KEY} make",
        "grep -rn 'token' src/",
        "https://example.org:8080/a/b",
        "the token is checked here",
        "tokens: 17",
        "if token is None: return",
        "--token-limit 30",
        "ssh -p 2222 me@host",
        "mysql -u root -p shop",
        "mysql -h db -P3306 --port 3306 --protocol tcp",
        "mysql -p$PASSWORD -e 'select 1'; mkdir -pv a",
        "mysql --version; cp -pr a b",
        "print(\"token:\", 'a b c')",
        "git log --author me@example.org",
        "secret_name = config.secret_name",
    ],
)
def test_ordinary_text_stays(text: str):
    assert redact(text) == text


def test_private_keys_whole_and_cut_off():
    body = "MIIEpAIBAAKCAQEA" * 20
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    assert redact(f"a\n{key}\nb") == f"a\n{MARK}\nb"
    assert redact(f"a\n{key[:200]}") == f"a\n{MARK}"


@pytest.mark.parametrize("room", range(20, 60))
def test_a_cut_never_shows_part_of_a_token(room: int):
    secret = SECRETS["github"]
    text = f"a long command that uses {secret} and goes on for a while after it, and on"
    for shown in (cut(text, room), ends(text, room), ends(text[::-1].replace(secret[::-1], secret), room)):
        assert len(shown) < room + 60
        for size in range(8, len(secret)):
            assert secret[:size] not in shown and secret[-size:] not in shown


def test_the_end_of_a_private_key_is_not_shown():
    body = "\n".join(["MIIEpAIBAAKCAQEA0123456789abcdefMIIEpAIBAAKCAQEA0123456789abcdef"] * 30)
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    assert "MIIE" not in ends(f"start\n{key}\nend of the output", 600)


def test_the_look_ahead_for_hints_loses_nothing():
    """`redact` skips the search in texts that cannot hold a match: never in one that does, whatever is around it."""
    from random import Random

    from misstep.scan import redact as module

    pieces = [
        *SECRETS.values(), "PaSSword=", "hunter2", "paſſword: 'tell no one'", "-u me:", "--user=", "https://a:b", "@host", "BEARER ", "x-api-key: ",
        "mysql -p", "MariaDB --x -p'", "sshpass -p ", "abcDEF1234567890abcd", "-----BEGIN OPENSSH PRIVATE KEY-----", "\n", " ", '"', "'", "=", "word",
        "to\u212aen=", "glpat-", "sk_live_", "ya29.", "SG.", "dop_v1_", "pypi-", "xapp-", "hooks.slack.com/services/", "gho_", "AIDA", "credential: ",
    ]  # fmt: skip
    draw = Random(5)
    hits = 0
    for _ in range(4000):
        text = "".join(draw.choices(pieces, k=draw.randrange(1, 7)))
        whole = module._VALUE.sub(module._replace, module._WHOLE.sub(MARK, text))
        assert redact(text) == whole
        hits += whole != text
    assert hits > 1000
