"""`record`: what `dataclass` gives, at a tenth of its import time.

A hook is a new process for every step of a live agent: importing `dataclasses` and making its classes there
costs more than all policies together (about 16 ms of CPU, of 7 for a bare interpreter). Type checkers see the
real `dataclass`; at run time this small equivalent makes `__init__`, `__repr__`, `__eq__`, `__match_args__` and
`__slots__` from the annotations. Modules that use it need `from __future__ import annotations`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field
else:
    CODE = {}  # by text; a hook brings those it knows along

    class _Factory:
        __slots__ = ("make",)

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """A default that is made anew for each instance."""
        return _Factory(default_factory)

    def record(cls=None, *, slots=False):
        """Class decorator; see the module."""
        return _record(cls, slots) if cls is not None else lambda c: _record(c, slots)

    def _record(cls, slots):
        fields, defaults = [], {}
        for base in reversed(cls.__mro__[1:]):
            fields += [f for f in base.__dict__.get("__match_args__", ()) if f not in fields]
            defaults.update(base.__dict__.get("__record_defaults__", {}))
        annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063  (inspect costs what is saved here)
        own = [n for n, kind in annotations.items() if not kind.startswith("ClassVar")]
        for name in own:
            if name not in fields:
                fields.append(name)
            if name in cls.__dict__:
                defaults[name] = cls.__dict__[name]
        scope, arguments, body = {"_unset": _Factory}, [], []
        for name in fields:
            value = name
            if name in defaults:
                default = defaults[name]
                if isinstance(default, _Factory):
                    scope[f"_make_{name}"], scope[f"_d_{name}"] = default.make, _Factory
                    value = f"_make_{name}() if {name} is _unset else {name}"
                else:
                    scope[f"_d_{name}"] = default
                arguments.append(f"{name}=_d_{name}")
            elif arguments and "=" in arguments[-1]:
                raise TypeError(f"{cls.__name__}.{name} without a default follows one with a default")
            else:
                arguments.append(name)
            body.append(f" self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        text = f"def __init__(self, {', '.join(arguments)}):\n" + ("\n".join(body) or " pass")
        code = CODE.get(text)
        if code is None:
            code = CODE[text] = compile(text, "<record>", "exec")
        exec(code, scope)
        made = {
            "__init__": scope["__init__"],
            "__match_args__": tuple(fields),
            "__record_defaults__": defaults,
            "__repr__": _repr,
            "__eq__": _eq,
            "__hash__": None,
        }
        if not slots:
            for name, value in made.items():
                if name not in cls.__dict__ or name in ("__match_args__", "__hash__"):
                    setattr(cls, name, value)
            for name in own:  # a factory is no default to be read from the class
                if isinstance(cls.__dict__.get(name), _Factory):
                    delattr(cls, name)
            return cls
        kept = {k: v for k, v in cls.__dict__.items() if k not in own and k not in ("__dict__", "__weakref__")}
        inherited = {s for base in cls.__mro__[1:] for s in base.__dict__.get("__slots__", ())}
        kept["__slots__"] = tuple(n for n in own if n not in inherited)
        return type(cls)(
            cls.__name__, cls.__bases__, {**made, **kept, "__hash__": None, "__match_args__": tuple(fields)}
        )

    def _repr(self):
        inner = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__match_args__)
        return f"{type(self).__qualname__}({inner})"

    def _eq(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in self.__match_args__)
