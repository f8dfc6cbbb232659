"""Hide what looks like a credential in text that is shown or stored.

`redact(text)` is for excerpts: it is called on a few hundred characters around an occurrence, not on whole
transcripts. A value is replaced by `[redacted]` and what names it stays, so that the step can still be read.
"""

from __future__ import annotations

import re

MARK = "[redacted]"

_NAMED = r"(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth[_-]?key)"

_WHOLE = re.compile(
    r"""
      -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----.*?(?:-----END\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    | \b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b           # AWS key ids
    | \bgh[pousr]_[A-Za-z0-9]{20,}                                # GitHub
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}                                  # GitLab
    | \bhf_[A-Za-z0-9]{16,}                                       # Hugging Face
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}                            # Slack
    | \bxapp-[A-Za-z0-9-]{10,}
    | hooks\.slack\.com/services/[A-Za-z0-9/_-]+
    | \bsk-(?:[a-z]{2,8}-)*[A-Za-z0-9_-]{16,}                     # OpenAI, Anthropic and look-alikes
    | \b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}                      # Stripe
    | \bAIza[0-9A-Za-z_-]{30,}                                    # Google
    | \bya29\.[0-9A-Za-z_-]{20,}
    | \bnpm_[A-Za-z0-9]{30,}
    | \bpypi-[A-Za-z0-9_-]{40,}
    | \bdop_v1_[a-f0-9]{40,}
    | \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}                # SendGrid
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*  # JSON web tokens
    """,
    re.VERBOSE | re.DOTALL,
)

_QUOTED = r"""(?![$<{])(?:(?<=")[^"\n]{3,}(?=")|(?<=')[^'\n]{3,}(?='))"""
"""A quoted value, after the group that ends with its quote."""
_QUOTED_WORDS = r"""(?![$<{(\[])(?:(?<=")(?=[^"\n]*\s)[^"\n]{4,}(?=")|(?<=')(?=[^'\n]*\s)[^'\n]{4,}(?='))"""
"""One with blanks in it."""

_VALUE = re.compile(
    rf"""
      (?P<url>://[^\s/:@'"]*:)[^\s/@'"]+(?=@)
    | (?P<header>\b(?:authorization|proxy-authorization|x-api-key|private-token)["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)
      (?!\$|(?:bearer|basic|token)\b)[^\s"',]{{6,}}
    | (?P<bearer>\bbearer\s+)(?!\$)[A-Za-z0-9._~+/-]{{16,}}=*
    | (?P<quoted_flag>(?:^|\s)--?(?:[a-z-]*{_NAMED}[a-z-]*)(?:=|\s+)["']){_QUOTED}
    | (?P<quoted_sshpass>\bsshpass\s+-p\s*["']){_QUOTED}
    | (?P<quoted_user>\s(?:-u|--user)[\s=]["'][^\s:"'$]+:)(?!\$)[^"'\n]+(?=["'])
    | (?P<quoted_mysql>\b(?:mysql|mariadb)[\w-]*\s(?:[^|;&\n]*?\s)?(?-i:-p)["']){_QUOTED}
    | (?P<mysql>\b(?:mysql|mariadb)[\w-]*\s(?:[^|;&\n]*?\s)?(?-i:-p))(?![$<{{"'])[^\s"'|;&]+
    | (?P<quoted_pair>\b[A-Za-z0-9_.-]*{_NAMED}[A-Za-z0-9_]*["']?\s*(?::=|[=:])\s*["']){_QUOTED_WORDS}
    | (?P<flag>(?:^|\s)--?(?:[a-z-]*{_NAMED}[a-z-]*)(?:=|\s+)["']?)(?![$<{{-])[^\s"']{{3,}}
    | (?P<sshpass>\bsshpass\s+-p\s*["']?)(?!\$)[^\s"']+
    | (?P<user>\s(?:-u|--user)[\s=]["']?[^\s:"'$]+:)(?!\$)[^\s"']+
    | (?P<pair>\b[A-Za-z0-9_.-]*{_NAMED}[A-Za-z0-9_]*["']?\s*(?::=|[=:])\s*)(?P<open>["']?)
      (?![$<{{(\[])(?P<value>[^\s"',;)}}\]]{{4,}})
    """,
    re.VERBOSE | re.IGNORECASE,
)

_CODE = re.compile(
    r"[A-Za-z_][\w.]*\(|(?:str|string|int|number|bool|boolean|none|null|true|false|undefined|optional|self|os|process)\b"
    r"|\d{1,7}$|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|\.\.\.|\*+$",
    re.IGNORECASE,
)
"""What stands after `token =` in ordinary code: a call, a type, a count, an attribute."""


def _replace(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "value":
        value, opened = match["value"], match["open"]
        if not opened and (_CODE.match(value) or not _dense(value, match["pair"])):
            return match[0]
        return f"{match['pair']}{opened}{MARK}"
    return f"{match[kind or 'url']}{MARK}"


def _dense(value: str, name: str) -> bool:
    """Whether an unquoted value is more than a plain word; passwords may be plain words where a shell assigns them."""
    if any(c.isdigit() for c in value):
        return True
    return name.rstrip()[-1:] == "=" and name[-1:] == "=" and "pass" in name.lower()


_WHOLE_HINTS = (
    "PRIVATE KEY", "AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "hf_", "xox", "xapp-", "hooks.slack.com", "sk-", "sk_", "rk_", "AIza", "ya29.", "npm_", "pypi-", "dop_v1_",
    "SG.", "eyJ",
)  # fmt: skip
"""No match of _WHOLE is without one of these."""
_VALUE_HINTS = ("pass", "secret", "token", "key", "credential", "authorization", "bearer", "-u", "mysql", "mariadb")
"""No match of _VALUE is without one of these, case folded, but for an address with `@` in it."""


def redact(text: str) -> str:
    """The text with keys, tokens, passwords and private keys replaced."""
    # Looking for what a match must hold takes a tenth of the time of looking for a match, and most texts hold none.
    if any(hint in text for hint in _WHOLE_HINTS):
        text = _WHOLE.sub(MARK, text)
    folded = text.casefold()
    if any(hint in folded for hint in _VALUE_HINTS) or ("://" in text and "@" in text):
        text = _VALUE.sub(_replace, text)
    return text
