"""Everyday words for pages and chapters with another name, in English and Russian.

The command menu searches for the words on the right when the one on the left is typed. The console shows none of them,
so gettext has no part in it. A page's own further names are its `words`.
"""

from __future__ import annotations

from collections.abc import Mapping

LEAST_LETTERS = 3
"""Of what is typed, before it counts as the beginning of a word."""

_ENGLISH = {
    "agent": ("client",),
    "allow list": ("allowed hosts", "allowlist"),
    "allowlist": ("allowed hosts",),
    "whitelist": ("allowed hosts",),
    "authentication": ("login providers", "access"),
    "authorization": ("groups", "access"),
    "backup": ("backup",),
    "block": ("call rules", "write stops"),
    "breaker": ("connections",),
    "certificate": ("deployment",),
    "chatgpt": ("connect a client",),
    "claude": ("connect a client",),
    "cost": ("quotas", "prices"),
    "cpu": ("traces and metrics",),
    "delete user": ("people",),
    "docker": ("deployment",),
    "documentation": ("docs",),
    "gdpr": ("redaction", "compliance"),
    "grafana": ("traces and metrics",),
    "helm": ("deployment",),
    "install": ("deployment", "connect a client"),
    "kubernetes": ("deployment",),
    "latency": ("overview", "traces and metrics"),
    "ldap": ("login providers",),
    "logging": ("calls", "traces and metrics"),
    "manual": ("docs",),
    "offboard": ("people",),
    "onboard": ("invite",),
    "opentelemetry": ("traces and metrics",),
    "otel": ("traces and metrics",),
    "pager": ("notifications",),
    "performance": ("overview",),
    "postgres": ("deployment",),
    "prometheus": ("traces and metrics",),
    "proxy": ("deployment", "connections"),
    "rate limit": ("rate limits",),
    "registry": ("choose a known server",),
    "restore": ("deployment", "catalogue as a file"),
    "roadmap": ("changelog",),
    "rotate": ("api keys",),
    "schema": ("tools", "rest"),
    "scim": ("access",),
    "shutdown": ("write stops",),
    "sign in": ("login providers",),
    "slow": ("overview", "alerts"),
    "splunk": ("audit export",),
    "storage": ("retention",),
    "tls": ("deployment",),
    "tutorial": ("tutorial",),
    "update": ("upgrading",),
    "upgrade": ("upgrading", "server processes"),
    "who": ("configuration history",),
}
_RUSSIAN = {
    "авторизация": ("groups", "access"),
    "аккаунт": ("people",),
    "алерт": ("alert",),
    "аудит": ("audit",),
    "аутентификация": ("login providers",),
    "база данных": ("deployment",),
    "безопасность": ("security",),
    "блокировка": ("call rules", "write stops"),
    "блокировать": ("call rules", "write stops"),
    "бэкап": ("backup",),
    "вебхук": ("webhook",),
    "версия": ("version",),
    "восстановить": ("restore", "catalogue as a file"),
    "вход": ("login providers",),
    "выгрузка": ("export",),
    "вызов": ("calls",),
    "выйти": ("logout",),
    "группа": ("groups",),
    "двухфакторная": ("mfa",),
    "документация": ("docs", "documentation"),
    "документы": ("docs", "documentation"),
    "доступ": ("access",),
    "журнал": ("audit log", "calls"),
    "задержка": ("latency", "overview"),
    "заблокировать": ("call rules", "write stops"),
    "запрет": ("deny",),
    "здоровье": ("health",),
    "импорт": ("import",),
    "инструмент": ("tools",),
    "квота": ("quotas",),
    "клиент": ("client",),
    "ключ": ("api keys",),
    "команда": ("team",),
    "лимит": ("limit",),
    "логи": ("logs",),
    "маскирование": ("mask",),
    "метрики": ("metrics",),
    "навык": ("skills",),
    "обновление": ("upgrading", "server processes"),
    "одобрить": ("approve",),
    "оповещение": ("alert",),
    "отключить": ("disable", "write stops"),
    "ошибка": ("errors",),
    "пароль": ("password",),
    "письмо": ("email",),
    "подключить": ("connect a client", "connections"),
    "пользователь": ("people",),
    "помощь": ("help",),
    "почта": ("email",),
    "права": ("permission",),
    "пригласить": ("invite",),
    "прометеус": ("prometheus", "traces and metrics"),
    "промпт": ("prompts",),
    "разрешение": ("permission",),
    "расход": ("quotas", "prices"),
    "расширение": ("skills",),
    "резервная копия": ("backup",),
    "ресурс": ("resources",),
    "роль": ("role",),
    "ротация": ("api keys",),
    "сбой": ("errors",),
    "свагер": ("swagger",),
    "секрет": ("secrets",),
    "сквозная": ("sso",),
    "скорость": ("rate limits", "overview"),
    "слак": ("slack",),
    "согласовать": ("approve",),
    "сотрудник": ("people",),
    "срок хранения": ("retention",),
    "стоимость": ("cost", "prices"),
    "схема": ("schema", "tools"),
    "таймаут": ("timeout",),
    "тема": ("theme",),
    "токен": ("token",),
    "трассировка": ("trace",),
    "уведомление": ("notifications",),
    "удалить сотрудника": ("people",),
    "уволить": ("people",),
    "установка": ("deployment", "connect a client"),
    "утверждение": ("approve",),
    "хранение": ("retention",),
    "цена": ("price", "prices"),
    "цены": ("price", "prices"),
    "экспорт": ("export",),
    "язык": ("language",),
    "белый список": ("allowed hosts",),
    "исходящий": ("egress",),
    "справка": ("help", "docs"),
    "тайм-аут": ("timeout",),
    "ограничение": ("limit",),
}
SYNONYMS: Mapping[str, tuple[str, ...]] = {**_ENGLISH, **_RUSSIAN}


def readings(sought: str) -> list[list[str]]:
    """Return the words themselves, and the searches that the whole phrase and each of its words stand for."""
    words = sought.lower().split()
    found = [words]
    meant = _meant(" ".join(words))
    for number, word in enumerate(words) if len(words) > 1 else ():
        found += [[*words[:number], other, *words[number + 1 :]] for other in _meant(word)]
    return found + [[each] for each in meant]


def _meant(typed: str) -> list[str]:
    if len(typed) < LEAST_LETTERS:
        return []
    return [each for word, others in SYNONYMS.items() if _is_alike(word, typed) for each in others]


def _is_alike(word: str, typed: str) -> bool:
    """Return whether the typed is the word, its beginning, or the word with another ending."""
    stem = word[: len(word) - 2] if len(word) > 5 else word
    return word.startswith(typed) or (len(typed) <= len(word) + 2 and typed.startswith(stem))
