"""Phrases that speak to a model in place of its user: known beginnings of injected instructions. Pure, linear.

Paraphrases are not found; docs/secure/guardrails.md lists the limits.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools_catalog.detectors.linear import Linear, literal

Found = Iterator[tuple[str, int, int]]

KINDS = ("override", "secrecy", "role", "prompt_leak", "markup", "tool_steering")


_GAP = r"[\s\"'*.,:;-]{1,4}"


def _phrase(kind: str, heads: str, rest: str = "") -> tuple[str, str]:
    """Return a kind and the pattern of a phrase: one of the heads, then the rest.

    In them `~` stands for a few words, a blank for any gap.
    """
    begin = r"\b" if heads[0].isalpha() and heads[0].isascii() else ""
    written = heads if heads[0].isalpha() else "|".join(literal(head).replace("\\ ", " ") for head in heads.split("|"))
    told = (rf"(?i){begin}(?:{written})" + rest).replace("~", _WORDS).replace("\\w", _LETTER)
    return kind, told.replace("HOME", "~").replace(" ", f"(?:{_GAP})")


_LETTER = r"[^\s\"'*.,:;-]"
_WORDS = rf"(?:(?:{_GAP}){_LETTER}{{1,16}}){{0,4}}"

_OBJECTS = r"(?:instruction|prompt|rule|direction|guideline|message|context|command|programming|constraint)s?\b"
_BEFORE = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|existing|original|initial|current|system|former)(?:ly)?\b"
)

_PHRASES = (
    _phrase("override", "ignore|disregard|forget|override|bypass|overrule|discard", rf"~ {_BEFORE}~ {_OBJECTS}"),
    _phrase(
        "override",
        "ignore|disregard|forget|discard",
        rf"~ {_OBJECTS}~ (?:above|before|you were given|so far|until now)\b",
    ),
    _phrase(
        "override",
        "ignore|disregard|forget",
        r" (?:all|any|everything)~ (?:you (?:were|have been) (?:told|given|taught)|above)\b",
    ),
    _phrase(
        "override",
        "ignore|disregard|override|bypass",
        r" (?:all |any )?(?:of )?your (?:\w{1,12} )?(?:instructions|rules|guidelines|safety|"
        r"programming|training)\b",
    ),
    _phrase("override", "new|updated|real|actual|revised", " (?:system )?(?:instructions?|prompt|directive) ?:"),
    _phrase("override", "from now on|henceforth", r"~ you (?:are|will|must|shall|should|have to|only)\b"),
    _phrase(
        "override",
        "игнорируй|проигнорируй|забудь|отбрось",
        r"(?:те)?~ (?:предыдущ|прежн|прошл|выше|исходн|системн)\w{0,10}~ (?:инструкци|указани|правил|"
        r"команд|сообщени|запрос)\w{0,4}",
    ),
    _phrase(
        "override",
        "ignorier|vergiss|missachte",
        r"\w{0,4}~ (?:vorherig|vorig|bisherig|obig|früher)\w{0,3}~ (?:anweisung|instruktion|regel|"
        r"befehl)\w{0,4}",
    ),
    _phrase(
        "override",
        "ignor|oublie|fais abstraction",
        r"\w{0,4}~ (?:instructions|consignes|règles|directives) (?:précédentes|antérieures|ci-dessus|"
        r"initiales)\b",
    ),
    _phrase(
        "override",
        "ignora|olvida|omite|descarta",
        r"\w{0,3}~ (?:instrucciones|órdenes|reglas|indicaciones) (?:anteriores|previas|de arriba)\b",
    ),
    _phrase(
        "override",
        "忽略|无视|忘记|無視",
        r"[^。\n]{0,8}(?:之前|以上|先前|前面|上述)[^。\n]{0,8}(?:指令|指示|提示|规则|命令|內容|内容)",
    ),
    _phrase(
        "secrecy",
        "do not|don't|don’t|never|must not|without",
        "~ (?:tell|telling|inform|informing|notify|notifying|mention|mentioning|reveal|alert|"
        "alerting|show|warn|warning|let)~ (?:the |to the |to |your )?(?:user|human|operator|person|"
        r"customer)\b",
    ),
    _phrase(
        "secrecy",
        "do not|don't|don’t|never",
        r" (?:mention|reveal|disclose|tell|talk about) (?:this|that|these|any of this|it)\b~ (?:user|"
        "anyone|anybody|instruction|step|human|explain)",
    ),
    _phrase("secrecy", "keep this|keep it|keep these", "~ (?:secret|hidden) from~ (?:user|human|anyone)"),
    _phrase(
        "secrecy",
        "не говори|не сообщай|не рассказывай|не упоминай",
        r"(?:те)?~ (?:пользовател|человек|оператор)\w{0,3}",
    ),
    _phrase("secrecy", "sage dem|sag dem|erzähle dem|teile dem", r" (?:benutzer|nutzer|anwender)~ (?:nicht|nichts)\b"),
    _phrase(
        "role",
        "you are now|you're now|act as|pretend to be|pretend you are|behave as",
        "~ (?:dan|jailbroken|unrestricted|unfiltered|uncensored|developer mode|evil|without (?:any "
        r")?(?:restriction|filter|limit|rule)s?|no longer bound|root|admin(?:istrator)?(?: mode)?)\b",
    ),
    _phrase(
        "role",
        "developer mode|jailbreak mode|god mode|dan mode|debug mode",
        r" (?:is |has been )?(?:now )?(?:enabled|activated|on|unlocked)\b",
    ),
    _phrase(
        "prompt_leak",
        "reveal|print|repeat|output|show|display|leak|disclose|tell me|give me|send",
        "~ (?:your|the) (?:full |entire |complete |exact |hidden |secret |initial |original |above "
        "){0,2}(?:system (?:prompt|message|instructions?)|initial (?:prompt|instructions?)|hidden "
        r"(?:prompt|instructions?)|developer message|instructions verbatim)\b",
    ),
    _phrase(
        "prompt_leak",
        "what is your|what are your|what were your",
        r" (?:system prompt|initial instructions|hidden instructions|original instructions)\b",
    ),
    (
        "markup",
        r"(?i)<\|(?:im_start|im_end|system|assistant|user|endoftext|start_header_id)\|>|<</?sys>>|"
        r"\[/?inst\]|<start_of_turn>",
    ),
    _phrase(
        "markup", "<important>|<system>|</system>|<system_prompt>|<hidden>|<secret_instructions>|<instructions_for_ai>"
    ),
    _phrase(
        "markup",
        "### system|### instruction|[system]|(system)|begin system prompt|system override|[system override",
        r"(?: ?(?:message|prompt|note))? ?[:\]#\n]",
    ),
    _phrase(
        "tool_steering",
        "before",
        " (?:using|calling|invoking|you (?:use|call|invoke)|running) (?:this|the|any|another|other)~ "
        r"tools?\b~ (?:you (?:must|should|have|need)|must|always|first|read|call|send|open|access)\b",
    ),
    _phrase(
        "tool_steering",
        "you must|you should|always|first",
        " (?:first |also |always )?(?:read|open|access|load|cat|include|attach|send) (?:the "
        ")?(?:contents? of |file )?[`'"
        r"\"]?(?:HOME/|/home/|/root/|/etc/|\$home)[^\s"
        "'"
        r"\"`]{0,60}",
    ),
    _phrase(
        "tool_steering",
        "pass|send|include|put|provide|append",
        "~ (?:content|contents|result|it|them|conversation|history|file|files|api[_-]?keys?|"
        "credentials|passwords?|tokens?)~ (?:as|in|into|to|through|via) (?:the |a )?[`'"
        r"\"]?(?:sidenote|side_note|note|hidden|debug|metadata|context)[`"
        "'"
        r"\"]? ?(?:parameter|argument|field|param)\b",
    ),
    _phrase(
        "tool_steering",
        "instead of|rather than",
        r" (?:using |calling )(?:the )?(?:\w{1,24} )?tool~ (?:use|call|always)\b",
    ),
)
PATTERNS = [(kind, pattern) for kind, pattern in _PHRASES]
"""Kinds and their patterns."""
_BY_KIND = {kind: [Linear(pattern) for each, pattern in _PHRASES if each == kind] for kind in KINDS}


def prepare(kind: str) -> None:
    """Compile the phrases of a kind, before a call waits for that."""
    for pattern in _BY_KIND.get(kind, ()):
        pattern.prepare()


def found(raw: bytes, kind: str) -> Found:
    """Return where phrases of a kind are in a folded text, as UTF-8. Of places within one another the first counts."""
    places = sorted(place for pattern in _BY_KIND[kind] for place in pattern.places(raw))
    done = 0
    for begin, end in places:
        if begin >= done:
            done = end
            yield kind, begin, end
