"""Effects on databases."""

from __future__ import annotations

import re

from .context import Context, Reader, is_file, path_words
from .sql import sql_mutates

READ_ONLY_URI = re.compile(r"[?&](?:mode=ro|immutable=1)(?:&|$)")
SQLITE_VALUES = ("-init", "-cmd", "-separator", "-newline", "-nullvalue", "-mmap", "-lookaside", "-pagecache", "-vfs", "-maxsize",
                 "-A", "-heap", "-c")  # fmt: skip


def sqlite_path(name: str) -> tuple[str, bool]:
    """(file of a connection string, it is opened read-only)."""
    if name.startswith("file:"):
        path, _, _ = name[5:].partition("?")
        return (path[2:] if path.startswith("//") else path), bool(READ_ONLY_URI.search(name)) or "mode=memory" in name
    return name, False


def sqlite(x: Context) -> None:
    """sqlite3 and duckdb: to open a database for reading and writing is to change it (recovery, checkpoint, -wal)."""
    argv = x.argv
    words: list[str] = []
    read_only = False
    commands: list[str] = []
    k = 1
    while k < len(argv):
        a = argv[k]
        k += 1
        if a[:1] == "-" and len(a) > 1 and not words:
            flag = "-" + a.lstrip("-")
            if flag in ("-readonly", "-immutable", "-safe-ro"):
                read_only = True
            elif flag in ("-version", "-help"):
                return
            elif flag in SQLITE_VALUES:
                if flag in ("-cmd", "-c") and k < len(argv):
                    commands.append(argv[k])
                k += 1
        elif a[:1] == "-" and len(a) > 1:
            if "-" + a.lstrip("-") == "-readonly":
                read_only = True
        else:
            words.append(a)
    commands += words[1:]
    if not commands and not x.fed and x.waits and not x.wrapped("xargs"):
        x.add("interactive", words[:1], why=f"{x.name} without statements is a prompt")
    if not words or words[0] in ("", ":memory:"):
        return
    path, uri = sqlite_path(words[0])
    text = "\n".join(commands) or x.command.stdin or ""
    engine = "duckdb" if x.name == "duckdb" else "sqlite"
    info = {"mutates": not (read_only or uri), "engine": engine, "writes": sql_mutates(text) if text else None}
    x.add("database", (path,), **info)
    m = re.search(r"^\s*\.(?:backup|save|clone)\s+(?:\w+\s+)?['\"]?([^'\"\s]+)", text, re.M)
    if m:
        x.add("copy", (path,), dest=m.group(1))


def statements(x: Context, *options: str) -> tuple[list[str], bool]:
    """(texts of the options that carry SQL, one of them cannot be read)."""
    found: list[str] = []
    dynamic = False
    argv = x.argv
    for k, a in enumerate(argv):
        if a in options and k + 1 < len(argv):
            found.append(argv[k + 1])
            dynamic = dynamic or bool(re.fullmatch(r"\s*(\$\{?\w+\}?|\$\(.*\)|`.*`)\s*", argv[k + 1], re.S))
        else:
            name, sign, value = a.partition("=")
            if sign and name in options:
                found.append(value)
            elif len(a) > 2 and a[:2] in options and a[1] != "-":
                found.append(a[2:])
    return found, dynamic


def client(x: Context) -> None:
    """psql, mysql and other clients whose statements tell whether anything may change."""
    name = x.name
    engine = {
        "psql": "postgres",
        "mysql": "mysql",
        "clickhouse-client": "clickhouse",
        "sqlcmd": "mssql",
        "cqlsh": "cassandra",
    }[name]
    if x.has("--version", "--help", "-V") and len(x.argv) == 2:
        return
    texts, dynamic = statements(
        x, *(("-c", "--command") if name == "psql" else ("-e", "--execute", "-q", "--query", "-Q"))
    )
    file = x.value("-f", "--file", "--queries-file", "-i") if name != "mysql" else None
    if name == "psql" and x.has("-l", "--list"):
        x.add("database", mutates=False, engine=engine)
        return
    files = [r.target for r in x.command.redirects if r.op == "<" and r.fd == 0 and is_file(r.target)]
    mutates: bool | None
    if texts:
        verdicts = [sql_mutates(t) for t in texts]
        mutates = True if True in verdicts else None if None in verdicts or dynamic or file else False
    elif x.command.stdin is not None and not file:
        mutates = sql_mutates(x.command.stdin)
    elif file or x.fed or files:
        mutates = None
    else:
        mutates = None
        if x.waits:
            x.add("interactive", why=f"{name} without statements is a prompt")
    x.add("database", mutates=mutates, engine=engine)


def mongo(x: Context) -> None:
    text = x.value("--eval") or x.command.stdin or ""
    mutates: bool | None = None
    if re.search(
        r"\.(insert|update|delete|remove|drop|replace|save|create|rename|bulkWrite|findOneAnd|findAndModify)", text
    ):
        mutates = True
    elif text and re.fullmatch(
        r"[\s\w.()'\"{}:,$\[\]-]*\.(find|findOne|count\w*|stats|getCollectionNames|ping|version)\([^)]*\)[\s\w.();]*",
        text,
    ):
        mutates = False
    elif not text and not x.fed and not any(a.endswith(".js") for a in x.argv) and x.waits:
        x.add("interactive", why=f"{x.name} without a script is a prompt")
    x.add("database", mutates=mutates, engine="mongodb")


REDIS_READS = frozenset(["get", "mget", "keys", "scan", "exists", "ttl", "pttl", "type", "hget", "hgetall", "hmget", "hkeys", "hvals", "hlen", "lrange", "llen", "lindex", "smembers", "scard", "sismember", "zrange", "zscore", "zcard", "zrangebyscore", "strlen", "info", "ping", "dbsize", "time", "memory", "object", "client", "config", "command", "echo", "monitor", "slowlog", "xrange", "xlen", "getrange", "bitcount", "cluster", "role", "lastsave", "randomkey"])  # fmt: skip


def redis(x: Context) -> None:
    words = x.operands("hpasnuridx", ("--user", "--pass", "--pipe-timeout"))
    if x.has("--version", "-v"):
        return
    if not words:
        if not x.fed and x.waits and not x.has("--scan", "--stat", "--bigkeys"):
            x.add("interactive", why="redis-cli without a command is a prompt")
        x.add("database", mutates=None if not x.has("--scan", "--stat", "--bigkeys") else False, engine="redis")
        return
    verb = words[0].lower()
    if verb == "ping":
        x.add(
            "probe",
            target=f"redis:{x.value('-p') or 6379}",
            local=(x.value("-h") or "localhost") in ("localhost", "127.0.0.1"),
        )
        return
    if verb == "shutdown":
        x.add("kill", how="name", pattern="redis-server")
        return
    mutates = verb not in REDIS_READS or (
        verb in ("config", "client", "slowlog")
        and words[1:2]
        and words[1].lower() in ("set", "kill", "reset", "rewrite")
    )
    x.add("database", mutates=bool(mutates), engine="redis")


def dump(x: Context) -> None:
    """Programs that only read a database."""
    engine = {"pg_dump": "postgres", "pg_dumpall": "postgres", "mysqldump": "mysql", "mongodump": "mongodb"}.get(
        x.name, "sqlite"
    )
    if x.name in ("sqldiff", "sqlite3_analyzer"):
        x.add("database", path_words(x.operands()), mutates=True, engine=engine)
        return
    x.add("database", mutates=False, engine=engine)


def change(x: Context) -> None:
    """Programs that are there to change a database."""
    engine = {"mysqlimport": "mysql", "mongorestore": "mongodb", "mongoimport": "mongodb"}.get(x.name, "postgres")
    x.add("database", mutates=True, engine=engine)


def migrate(x: Context) -> None:
    """Migration tools."""
    words = x.operands("c")
    if (x.name == "alembic" and words[:1] and words[0] in ("upgrade", "downgrade", "stamp")) or (
        x.name == "prisma"
        and words[:2]
        in (
            ["migrate", "dev"],
            ["migrate", "deploy"],
            ["migrate", "reset"],
            ["db", "push"],
            ["db", "seed"],
        )
    ):
        x.add("database", mutates=True, engine="migration")


READERS: dict[str, Reader] = {
    **dict.fromkeys(("sqlite3", "sqlite", "duckdb", "litecli"), sqlite),
    **dict.fromkeys(("psql", "mysql", "clickhouse-client", "sqlcmd", "cqlsh"), client),
    **dict.fromkeys(("mongo", "mongosh"), mongo),
    **dict.fromkeys(("pg_dump", "pg_dumpall", "mysqldump", "mongodump", "sqldiff", "sqlite3_analyzer"), dump),
    **dict.fromkeys(
        ("pg_restore", "createdb", "dropdb", "createuser", "dropuser", "mysqlimport", "mongorestore", "mongoimport"),
        change,
    ),
    **dict.fromkeys(("alembic", "prisma"), migrate),
    "redis-cli": redis,
}
