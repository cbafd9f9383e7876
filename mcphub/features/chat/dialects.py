"""The abilities and demands of each family of providers, as one table. Pure. The sources: page *Providers tried*.

A dialect is found by the kind of the provider, the host of its address and the name of the model: behind a router or a
gateway the rules of the model's maker hold too, since it is the maker that refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlsplit

from mcphub.features.chat import schema_rules as rules
from mcphub.features.chat.schema_rules import Rule

COMMON: tuple[Rule, ...] = (
    rules.older_drafts,
    rules.merged_root,
    rules.array_items,
    rules.plain_patterns,
    rules.sound_lists,
)
"""For every provider: features that several of them reject, and none needs."""
_SMALL: tuple[Rule, ...] = (rules.no_conditions, rules.no_tuples, rules.any_of_only, rules.const_as_enum)
_GRAMMAR: tuple[Rule, ...] = (*_SMALL, rules.one_type, rules.grammar_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    name: str
    schema: tuple[Rule, ...] = ()
    """Rules after the common ones."""
    property_names: re.Pattern[str] | None = None
    """Allowed property names; a tool with another one is left out."""
    most_tools: int = 128
    most_schema_bytes: int = 1_000_000
    """Of all tools together; beyond it each is sent with its bare arguments."""
    is_closed: bool = False
    """Members of a message that OpenAI's wire does not have are refused, but for those that the model itself sent."""
    calls_need: str = ""
    """The member that a message with calls must have; `calls_need_value` stands in where another model made it."""
    calls_need_value: str = ""
    needs_signature: bool = False
    """A call of the turn under way must have a thought signature; Google names one for calls that have none."""
    call_ids: re.Pattern[str] | None = None
    """Allowed call IDs; others are converted."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Parameters by another name; an empty one is left out."""
    native: str = ""
    """The wire on which the provider itself loads tools that a search found; see `providers.wires`."""
    native_models: re.Pattern[str] | None = None
    """The models that do so, as the provider documents them."""


_OPENAI = Dialect(
    name="openai",
    is_closed=True,
    native="responses",
    # developers.openai.com, guide *Tool search*: gpt-5.4 and later.
    native_models=re.compile(r"gpt-(5\.([4-9]|[1-9]\d)|[6-9]|[1-9]\d)([.-].*)?"),
)
# Names of deployments are the operator's own, so no table can have them.
_AZURE = replace(_OPENAI, name="azure", native_models=None)
_ANTHROPIC = Dialect(
    name="anthropic",
    property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
    native="messages",
    # platform.claude.com, page *Tool search tool*: Fable 5, Mythos, Sonnet 4.0, Opus 4.0, Haiku 4.5 and later.
    native_models=re.compile(
        r"claude-((fable|mythos)-([5-9]|\d\d)|mythos-preview|(sonnet|opus)-([4-9]|\d\d)"
        r"|haiku-(4-[5-9]|[5-9]|\d\d))(-.*)?"
    ),
)
_GOOGLE = Dialect(
    name="google", schema=(*_SMALL, rules.one_type, rules.typed_nodes, rules.google_words), needs_signature=True
)
_MISTRAL = Dialect(
    name="mistral",
    is_closed=True,
    call_ids=re.compile(r"[a-zA-Z0-9]{9}"),
    renamed=(("seed", "random_seed"), ("user", ""), ("stream_options", "")),
)
_DEEPSEEK = Dialect(name="deepseek", calls_need="reasoning_content")
_KIMI = Dialect(
    name="kimi",
    schema=(*_SMALL, rules.one_type, rules.typed_nodes),
    calls_need="reasoning_content",
    calls_need_value=" ",
)
_LLAMA_CPP = Dialect(name="llama.cpp", schema=_GRAMMAR, most_schema_bytes=80_000)
_COMPATIBLE = Dialect(name="compatible")
DIALECTS: tuple[Dialect, ...] = (
    _OPENAI,
    _AZURE,
    _ANTHROPIC,
    _GOOGLE,
    _MISTRAL,
    _DEEPSEEK,
    _KIMI,
    Dialect(name="qwen"),
    Dialect(name="groq", is_closed=True),
    Dialect(name="together"),
    Dialect(name="openrouter"),
    Dialect(name="vllm", schema=(rules.no_conditions,)),
    replace(_LLAMA_CPP, name="ollama"),
    _LLAMA_CPP,
    replace(_LLAMA_CPP, name="lm_studio"),
    Dialect(name="huawei_maas"),
    _COMPATIBLE,
)
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_HOSTS = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("anthropic.com", "anthropic"),
    ("googleapis.com", "google"),
    ("mistral.ai", "mistral"),
    ("deepseek.com", "deepseek"),
    ("moonshot.ai", "kimi"),
    ("moonshot.cn", "kimi"),
    ("kimi.com", "kimi"),
    ("aliyuncs.com", "qwen"),
    ("groq.com", "groq"),
    ("cerebras.ai", "groq"),
    ("together.xyz", "together"),
    ("together.ai", "together"),
    ("openrouter.ai", "openrouter"),
    ("modelarts-maas.com", "huawei_maas"),
)
"""The end of a host, and the dialect that it speaks."""
_PORTS = {11434: "ollama", 1234: "lm_studio", 8080: "llama.cpp"}
"""Where programs accept requests by default, on hosts that are none of the above."""
_MAKERS = (
    (re.compile(r"(?i)\bgemini-"), _GOOGLE),
    (re.compile(r"(?i)\bclaude-"), _ANTHROPIC),
    (re.compile(r"(?i)\b(kimi-|moonshot-)"), _KIMI),
    (re.compile(r"(?i)\bdeepseek-"), _DEEPSEEK),
)
"""Names of models whose maker's rules also hold behind a router."""
_ROUTERS = frozenset({"compatible", "openrouter", "together", "huawei_maas", "qwen"})


@lru_cache(maxsize=512)
def dialect_of(kind: str, base_url: str, model: str) -> Dialect:
    """Return the dialect of a model at a provider: by its kind, its host, its port, then by the maker's name."""
    found = _of_address(kind, base_url)
    if found.name not in _ROUTERS:
        return found
    maker = next((dialect for pattern, dialect in _MAKERS if pattern.search(model)), None)
    if maker is None:
        return found
    return replace(maker, name=found.name if found is not _COMPATIBLE else maker.name, is_closed=found.is_closed)


@lru_cache(maxsize=512)
def native_wire(kind: str, base_url: str, model: str) -> str:
    """Return the wire on which a model is documented to load tools by itself; empty where it is not.

    The address decides, then the documented table: a router with a model of that name may know nothing of it.
    """
    dialect = _of_address(kind, base_url)
    documented = dialect.native_models
    return dialect.native if documented is not None and documented.fullmatch(model) else ""


def of_wire(dialect: Dialect, wire: str) -> Dialect:
    """Return the dialect of a provider that is spoken to on a wire of its maker."""
    return _ANTHROPIC if wire == _ANTHROPIC.native else dialect


def _of_address(kind: str, base_url: str) -> Dialect:
    try:
        address = urlsplit(base_url)
        host, port = address.hostname or "", address.port
    except ValueError:
        host, port = "", None
    named = next((name for end, name in _HOSTS if host == end or host.endswith(f".{end}")), None)
    if kind == "openai":
        return _AZURE if named == "azure" else _OPENAI
    if kind == "huawei_maas":
        return _BY_NAME["huawei_maas"]
    return _BY_NAME[named or _PORTS.get(port or 0, "compatible")]
