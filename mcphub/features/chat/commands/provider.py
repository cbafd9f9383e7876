"""`mcphub provider add`: a provider of models with one model. A running hub knows both at once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop, fills, migrated_database, start_django

if TYPE_CHECKING:
    from mcphub.features.chat.models import ChatModel

_KINDS = ("compatible", "openai", "huawei_maas")


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="add", required=True, title="verbs", dest="verb")
    add = verbs.add_parser("add", help="add a provider, or another model to one that is there")
    add.add_argument("name", metavar="NAME", help="stands before the models' names, as in local/llama")
    url = add.add_argument("url", metavar="URL", help="the base URL, up to the version: http://127.0.0.1:8080/v1")
    fills(url, "base_url")
    model = add.add_argument("--model", required=True, metavar="ID", help="what the provider calls the model")
    fills(model, "name")
    add.add_argument("--kind", choices=_KINDS, default=_KINDS[0], help=f"whose API it is ({_KINDS[0]})")
    add.add_argument("--key-stdin", action="store_true", help="read the provider's key from standard input")
    add.add_argument("--default", action="store_true", help="ask this model where a request names none")
    add.add_argument(
        "--json-schema", action="store_true", help="the model cannot call functions, and can be held to a JSON schema"
    )


def run(options: argparse.Namespace) -> int:
    start_django()
    from django.db import transaction

    key = sys.stdin.readline().strip() if options.key_stdin else ""
    if options.key_stdin and not key:
        raise Stop("mcphub provider add: standard input has no key.", status=2)
    with migrated_database(), transaction.atomic():
        model = _add(options, key)
    print(f"{model.public_id}{', the default model' if model.is_default else ''}")
    return 0


def _add(options: argparse.Namespace, key: str) -> ChatModel:
    from mcphub.features.chat.models import ChatModel, ChatProvider

    made = ChatProvider(slug=options.name, kind=options.kind, base_url=options.url)
    there = ChatProvider.objects.filter(slug=options.name).first()
    if there is None:
        made.set_secret(key)
        made.full_clean()
        made.save()
    elif key or (there.base_url, there.kind) != (made.base_url.rstrip("/"), made.kind):
        raise Stop(
            f"mcphub provider add: there is a provider {there.slug} at {there.base_url}; change it in the console, or "
            "choose another name.",
            status=2,
        )
    if options.default:
        for row in ChatModel.objects.filter(is_default=True):
            row.is_default = False
            row.save()
    model = ChatModel(
        provider=there or made,
        name=options.model,
        is_default=options.default,
        tools=not options.json_schema,
        json_schema=options.json_schema,
    )
    model.full_clean()
    model.save()
    return model
