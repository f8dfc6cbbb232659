"""The one client for every model call: roles, structured answers, cache, budget, log.

    async with Client.open(Settings.load(Path("models.toml")), Path("run")) as client:
        reply = await client.ask("localizer", [Message("user", "...")], Answer)

An answer is a validated `Answer`, or the call counts as failed: nothing is guessed. A rerun takes every answer from the
cache: it costs nothing and gives the same. Needs the extra `models` where a call is really made.
"""

from misstep.models.budget import Budget, BudgetExceeded, Spent
from misstep.models.cache import Cache, CacheError
from misstep.models.client import Client, Reply
from misstep.models.errors import InvalidAnswer, ModelError, NotCached, Rejected, Unreachable
from misstep.models.request import Answered, Message, Request
from misstep.models.settings import ROLES, Role, Settings, SettingsError

__all__ = [
    "ROLES",
    "Answered",
    "Budget",
    "BudgetExceeded",
    "Cache",
    "CacheError",
    "Client",
    "InvalidAnswer",
    "Message",
    "ModelError",
    "NotCached",
    "Rejected",
    "Reply",
    "Request",
    "Role",
    "Settings",
    "SettingsError",
    "Spent",
    "Unreachable",
]
