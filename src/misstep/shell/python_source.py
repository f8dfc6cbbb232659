"""Effects of a Python text (`python -c`, `python - <<EOF`), read with `ast`; nothing is said of a text that does not parse."""

from __future__ import annotations

import re

from .context import Context
from .effects_data import sqlite_path
from .effects_files import is_local
from .model import Command, Effect, Redirect
from .sql import sql_mutates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TEXT = 200_000
INTERESTING = re.compile(
    r"sqlite3|connect|open\s*\(|write|read_|Path|shutil|\bos\.|subprocess|socket|requests|urllib|httpx|http\.|uvicorn|\.run\(|serve|"
    r"sleep|input\s*\(|to_(?:csv|json|parquet|excel|pickle)|save|pytest|unittest|create_engine|redis|Mongo|aiohttp|websocket|paramiko|system|"
    r"popen|Popen|check_|duckdb|psycopg|kill"
)
HTTP_CALLS = frozenset(
    [f"{m}.{v}" for m in ("requests", "httpx") for v in ("get", "post", "put", "delete", "head", "patch", "request", "options", "stream")]
    + ["urllib.request.urlopen", "urllib2.urlopen", "requests.Session", "httpx.Client", "httpx.AsyncClient", "aiohttp.ClientSession",
       "http.client.HTTPConnection", "http.client.HTTPSConnection", "socket.create_connection", "websockets.connect", "websocket.create_connection",
       "smtplib.SMTP", "smtplib.SMTP_SSL", "telnetlib.Telnet", "ftplib.FTP", "imaplib.IMAP4", "paramiko.SSHClient", "grpc.insecure_channel",
       "xmlrpc.client.ServerProxy", "asyncio.open_connection", "websocket.WebSocket", "socketio.Client", "jsonrpclib.Server"]
)  # fmt: skip
SERVERS = frozenset(["uvicorn.run", "waitress.serve", "aiohttp.web.run_app", "web.run_app", "hypercorn.asyncio.serve", "asyncio.start_server",
                     "bottle.run", "cherrypy.quickstart", "werkzeug.serving.run_simple", "http.server.test", "websockets.serve",
                     "asyncio.start_unix_server", "gevent.pywsgi.WSGIServer.serve_forever", "eventlet.wsgi.server"])  # fmt: skip
APP_FRAMEWORKS = ("flask", "quart", "bottle", "sanic", "flask_socketio", "dash", "gradio", "fasthtml")
COPIES = frozenset(["shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.make_archive"])
MOVES = frozenset(["shutil.move", "os.rename", "os.replace", "os.renames"])
DELETES = frozenset(["os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"])
SHELLS = frozenset(["os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"])
SUBPROCESS = frozenset(["subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen",
                        "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"])  # fmt: skip
DATABASES = {"sqlite3.connect": "sqlite", "aiosqlite.connect": "sqlite", "apsw.Connection": "sqlite", "sqlite3.dbapi2.connect": "sqlite",
             "psycopg2.connect": "postgres", "psycopg.connect": "postgres", "asyncpg.connect": "postgres", "asyncpg.create_pool": "postgres",
             "pymysql.connect": "mysql", "MySQLdb.connect": "mysql", "mysql.connector.connect": "mysql", "sqlalchemy.create_engine": "sqlalchemy",
             "pymongo.MongoClient": "mongodb", "redis.Redis": "redis", "redis.StrictRedis": "redis", "redis.from_url": "redis",
             "duckdb.connect": "duckdb", "pyodbc.connect": "odbc", "create_engine": "sqlalchemy"}  # fmt: skip
SAVERS = re.compile(
    r"\.(?:to_csv|to_json|to_parquet|to_excel|to_pickle|to_feather|to_hdf|savefig|tofile|save_model|save_pretrained|imsave)$|^(?:numpy|np)\.save\w*$"
)
LOADERS = re.compile(
    r"^(?:pandas|pd|polars|pl)\.read_\w+$|^(?:numpy|np)\.(?:load|loadtxt|genfromtxt|fromfile)$|\.read_csv$"
)
PATH_STEPS = frozenset(["expanduser", "resolve", "absolute", "as_posix", "__str__"])


def python_effects(x: Context, text: str, dynamic: bool = False) -> None:
    """Adds the effects of `text` to `x`. `dynamic`: the shell has expanded something in it."""
    if len(text) > MAX_TEXT or not INTERESTING.search(text):
        return
    import ast
    import warnings

    if "\\$" in text and dynamic:
        text = text.replace("\\$", "$")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        _Reader(x, text, ast).read(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return


class _Reader:
    """One pass over a syntax tree in written order."""

    def __init__(self, x: Context, text: str, ast: Any) -> None:
        self.x = x
        self.text = text
        self.ast = ast
        self.names: dict[str, str] = {}  # what an import bound a name to
        self.values: dict[str, str] = {}  # names with one literal value
        self.assigned: set[str] = set()
        self.paths: set[str] = set()  # names bound to a Path
        self.sql: list[str] = []
        self.databases: list[Effect] = []
        self.serves = False
        self.bound = False

    def read(self, tree: Any) -> None:
        ast = self.ast
        self.frameworks = False
        stack = [tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Call):
                self.call(node)
            elif isinstance(node, ast.Import):
                for a in node.names:
                    if a.asname:
                        self.names[a.asname] = a.name
                    self.frameworks = self.frameworks or a.name.split(".")[0] in APP_FRAMEWORKS
            elif isinstance(node, ast.ImportFrom):
                for a in node.names:
                    self.names[a.asname or a.name] = f"{node.module}.{a.name}" if node.module else a.name
                self.frameworks = self.frameworks or (node.module or "").split(".")[0] in APP_FRAMEWORKS
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.bind(node.targets[0].id, node.value)
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.AugAssign, ast.comprehension)):
                target = node.target
                for n in ast.walk(target):
                    if isinstance(n, ast.Name):
                        self.assigned.add(n.id)
                        self.values.pop(n.id, None)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                for arg in [*node.args.args, *node.args.kwonlyargs]:
                    self.assigned.add(arg.arg)
                    self.values.pop(arg.arg, None)
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
        if self.databases:
            verdicts = [sql_mutates(t) for t in self.sql]
            writes = True if True in verdicts else None if None in verdicts or not verdicts else False
            for e in self.databases:
                e.info["writes"] = writes
                if e.info["mutates"] is None and verdicts:
                    e.info["mutates"] = writes

    def bind(self, name: str, value: Any) -> None:
        known = self.literal(value)
        if name in self.assigned:
            self.values.pop(name, None)
            self.paths.discard(name)
        elif known is not None:
            self.values[name] = known
            if self.is_path(value):
                self.paths.add(name)
        elif isinstance(value, self.ast.Call) and self.is_path(value):
            self.paths.add(name)
        self.assigned.add(name)

    def dotted(self, node: Any) -> str:
        ast = self.ast
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(self.names.get(node.id, node.id))
        elif isinstance(node, ast.Call) and parts:
            parts.append("()")
        else:
            return ""
        return ".".join(reversed(parts))

    def literal(self, node: Any) -> str | None:
        """The text that an expression certainly has; a Path counts as its text."""
        ast = self.ast
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.JoinedStr):
            parts = []
            for v in node.values:
                known = self.literal(v.value if isinstance(v, ast.FormattedValue) else v)
                if known is None:
                    return None
                parts.append(known)
            return "".join(parts)
        if isinstance(node, ast.BinOp):
            left, right = self.literal(node.left), self.literal(node.right)
            if left is None or right is None:
                return None
            if isinstance(node.op, ast.Add):
                return left + right
            return f"{left.rstrip('/')}/{right}" if isinstance(node.op, ast.Div) else None
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if (
                name
                in (
                    "pathlib.Path",
                    "pathlib.PurePath",
                    "str",
                    "os.path.join",
                    "os.path.expanduser",
                    "os.path.abspath",
                    "os.fspath",
                )
                and node.args
            ):
                known_parts = [self.literal(a) for a in node.args]
                if any(k is None for k in known_parts):
                    return None
                return "/".join(
                    k.rstrip("/") if i < len(known_parts) - 1 else k for i, k in enumerate(known_parts) if k is not None
                )
            if isinstance(node.func, ast.Attribute) and node.func.attr in PATH_STEPS and not node.args:
                return self.literal(node.func.value)
        return None

    def is_path(self, node: Any) -> bool:
        ast = self.ast
        if isinstance(node, ast.Call):
            if self.dotted(node.func).startswith("pathlib.") and not isinstance(node.func, ast.Attribute):
                return True
            if self.dotted(node.func) in ("pathlib.Path", "pathlib.Path.home", "pathlib.Path.cwd"):
                return True
            return (
                isinstance(node.func, ast.Attribute) and node.func.attr in PATH_STEPS and self.is_path(node.func.value)
            )
        if isinstance(node, ast.Name):
            return node.id in self.paths
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and self.is_path(node.left)

    def files(self, *nodes: Any) -> list[str]:
        return [p for p in (self.literal(n) for n in nodes) if p]

    def keyword(self, node: Any, name: str) -> Any:
        return next((k.value for k in node.keywords if k.arg == name), None)

    def call(self, node: Any) -> None:
        name = self.dotted(node.func)
        args = node.args
        x = self.x
        attr = node.func.attr if isinstance(node.func, self.ast.Attribute) else ""
        if name in ("open", "io.open", "codecs.open", "gzip.open") or (
            attr == "open" and self.is_path(node.func.value)
        ):
            target = args[0] if args and name else None
            rest = args[1:]
            if attr == "open" and name not in ("io.open", "codecs.open", "gzip.open"):
                target, rest = node.func.value, args
            mode_node = rest[0] if rest else self.keyword(node, "mode")
            mode = self.literal(mode_node) if mode_node is not None else "r"
            if target is None or mode is None:
                return
            found = self.files(target)
            if set(mode) & set("wax+"):
                x.add("write", found, append="a" in mode, in_place="+" in mode)
            else:
                x.add("read", found, to="program", partial=False, raw=False, through=())
        elif name in DATABASES:
            self.database(name, node)
        elif attr in ("execute", "executescript", "executemany") and args:
            text = self.literal(args[0])
            self.sql.append(text if text is not None else "?")
        elif attr in ("write_text", "write_bytes"):
            x.add("write", self.files(node.func.value), append=False, in_place=False)
        elif attr in ("read_text", "read_bytes"):
            x.add("read", self.files(node.func.value), to="program", partial=False, raw=False, through=())
        elif attr in ("unlink", "rmdir") and self.is_path(node.func.value):
            x.add("delete", self.files(node.func.value), recursive=False)
        elif attr in ("rename", "replace") and self.is_path(node.func.value) and args:
            x.add("move", self.files(node.func.value), dest=self.literal(args[0]) or "")
        elif name in COPIES and len(args) > 1:
            x.add("copy", self.files(args[0]), dest=self.literal(args[1]) or "")
        elif name in MOVES and len(args) > 1:
            x.add("move", self.files(args[0]), dest=self.literal(args[1]) or "")
        elif name in DELETES and args:
            x.add("delete", self.files(args[0]), recursive=name == "shutil.rmtree")
        elif name in SHELLS and args:
            text = self.literal(args[0])
            if text:
                from .effects import nested_text

                nested_text(x, text, "python")
        elif name in SUBPROCESS and args:
            self.subprocess(name, node)
        elif name in HTTP_CALLS:
            first = self.literal(args[0]) if args else None
            if args and isinstance(args[0], self.ast.Tuple) and args[0].elts:
                first = self.literal(args[0].elts[0])
            x.add("probe", target=first or "", local=is_local("//" + (first or "")) or is_local(first or ""))
        elif (
            attr in ("connect", "connect_ex") and args and isinstance(args[0], self.ast.Tuple) and "socket" in self.text
        ):
            first = self.literal(args[0].elts[0]) if args[0].elts else None
            x.add("probe", target=first or "", local=is_local("//" + (first or "")))
        elif name == "urllib.request.urlretrieve":
            x.add("download", self.files(*args[1:2]), url=(self.literal(args[0]) if args else "") or "")
        elif (
            name in SERVERS
            or attr == "serve_forever"
            or (
                attr == "run" and self.frameworks and name.split(".")[0] in ("app", "server", "socketio", "application")
            )
        ):
            self.server(attr if name.startswith("()") or not name else name)
        elif attr == "listen" and "socket" in self.text and ".bind(" in self.text:
            self.server("socket.listen")
        elif name == "time.sleep" and args:
            value = args[0].value if isinstance(args[0], self.ast.Constant) else None
            x.add("sleep", seconds=float(value) if isinstance(value, (int, float)) else None, in_loop=False)
        elif name == "input" and not x.fed and x.waits:
            x.add("interactive", why="input() waits for a line")
        elif name in ("pytest.main", "unittest.main", "doctest.testmod"):
            x.add("test", runner=name.split(".")[0], partial=False)
        elif name in ("os.kill", "os.killpg"):
            x.add("kill", how="pid", pattern="")
        elif SAVERS.search(name) and args:
            x.add("write", self.files(args[0]), append=False, in_place=False)
        elif LOADERS.search(name) and args:
            x.add("read", self.files(args[0]), to="program", partial=False, raw=False, through=())

    def server(self, launcher: str) -> None:
        if not self.serves:
            self.serves = True
            from .effects_serve import serve

            serve(self.x, launcher=launcher)

    def database(self, name: str, node: Any) -> None:
        engine = DATABASES[name]
        first = node.args[0] if node.args else self.keyword(node, "database")
        known = self.literal(first) if first is not None else None
        if engine == "sqlite":
            if known in (":memory:", ""):
                return
            path, read_only = sqlite_path(known or "")
            if known is None and re.search(r"mode=ro|immutable=1", self.text):
                # The URI is put together: it may well be the read-only one.
                self.databases.append(self.x.add("database", (), mutates=None, engine=engine))
                return
            uri = self.keyword(node, "uri")
            self.databases.append(
                self.x.add(
                    "database", (path,) if path else (), mutates=not (read_only and uri is not None), engine=engine
                )
            )
            return
        if engine == "duckdb":
            if first is None or known == ":memory:":
                return
            flag = self.keyword(node, "read_only")
            read_only = isinstance(flag, self.ast.Constant) and flag.value is True
            self.databases.append(self.x.add("database", self.files(first), mutates=not read_only, engine=engine))
            return
        if engine == "sqlalchemy" and known and known.startswith("sqlite:///"):
            path = known[10:]
            if path and path != ":memory:":
                self.databases.append(self.x.add("database", (path,), mutates=True, engine="sqlite"))
            return
        self.databases.append(self.x.add("database", (), mutates=None, engine=engine))

    def subprocess(self, name: str, node: Any) -> None:
        """A command that the program starts: words, or a text for the shell."""
        from .effects import nested_command, nested_text

        ast = self.ast
        shell = self.keyword(node, "shell")
        through_shell = (isinstance(shell, ast.Constant) and shell.value is True) or name.endswith("_shell")
        background = name.endswith("Popen") and not re.search(r"\.(?:wait|communicate)\(", self.text)
        apart = self.keyword(node, "start_new_session")
        wrappers: tuple[str, ...] = ("python",)
        if (isinstance(apart, ast.Constant) and apart.value is True) or "os.setsid" in self.text:
            wrappers = ("python", "setsid")
        first = node.args[0]
        if isinstance(first, (ast.List, ast.Tuple)):
            words: list[str] = []
            for k, n in enumerate(first.elts):
                known = self.literal(n)
                if known is None:
                    if k == 0 and self.dotted(n) == "sys.executable":
                        known = "python"
                    elif k == 0:
                        return
                    else:
                        known = "$_"  # an expression: some word
                words.append(known)
            if not words:
                return
        elif name.endswith("_exec"):
            found = [self.literal(n) for n in node.args]
            if found[0] is None:
                return
            words = [w if w is not None else "$_" for w in found]
        else:
            text = self.literal(first)
            if text and through_shell:
                nested_text(self.x, text, "python", wrappers, background)
                return
            if not text or " " in text:
                return
            words = [text]
        inner = Command(words, wrappers=wrappers, background=background)
        inner.substitution = name.endswith("check_output") or self.keyword(node, "capture_output") is not None
        for fd, key in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
            value = self.keyword(node, key)
            if value is not None:
                where = "/dev/null" if self.dotted(value).endswith("DEVNULL") else "/dev/fd/x"
                inner.redirects.append(Redirect("<" if fd == 0 else ">", fd, where))
        if inner.substitution or any(r.fd == 1 for r in inner.redirects):
            inner.substitution = True
        nested_command(self.x, inner)
