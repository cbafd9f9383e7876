"""Words of tools and of questions about them: split, folded, stemmed, and what means the same. Pure.

English and Russian. A word becomes a stem; stems that mean the same share a concept, whose name begins with `_CONCEPT`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import snowballstemmer

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_CONCEPT = "="
_MOST_TEXT = 20_000
"""Characters of one text that are read."""
_LONGEST_WORD = 40

READ, MAKE = "=get", "=create"

_STEMMERS = {False: snowballstemmer.stemmer("english"), True: snowballstemmer.stemmer("russian")}


_UNLIKE = {"customer": "customer", "customers": "customer"}
"""What the stemmer would make one with a word of another meaning: custom."""


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Give the stem of one folded word."""
    if len(word) > _LONGEST_WORD or not word.isalpha():
        return word[:_LONGEST_WORD]
    if word in _UNLIKE:
        return _UNLIKE[word]
    return str(_STEMMERS[_CYRILLIC.search(word) is not None].stemWord(word))


def split(text: str) -> list[str]:
    """Give the words of a text, folded: `listPullRequests` and `list_pull-requests` are the same three."""
    folded = unicodedata.normalize("NFKC", _CAMEL.sub(" ", text[:_MOST_TEXT])).casefold().replace("ё", "е")
    return _WORD.findall(folded)


def words(text: str) -> list[str]:
    """Give the stems of a text, in its order."""
    return [stem(word) for word in split(text)]


VERBS = """
get read fetch show list view retrieve see display look check verify tell | показать получить прочитать посмотреть
    открыть узнать вывести список дать
create add make new register insert start begin set open write save store draft define plan | создать добавить сделать
    завести новый новая новое начать оформить выставить
delete remove destroy drop erase clear purge rid | удалить убрать стереть снять
update edit change modify alter set save rename replace adjust correct fix rewrite | изменить обновить править поменять
    исправить заменить отредактировать
send post mail email submit deliver notify tell | отправить послать выслать уведомить
search find query look lookup locate filter | найти искать поиск
cancel stop abort end terminate halt undo | отменить остановить прервать
disable deactivate off suspend pause stop | отключить выключить приостановить
enable activate on resume continue | включить возобновить продолжить
run execute start trigger dispatch launch kick invoke | запустить выполнить
rerun retry redeliver resend repeat again restart | повторить перезапустить заново
copy clone duplicate fork replicate | копировать скопировать клонировать
move transfer migrate | переместить перенести передать
merge combine join | слить объединить
close complete finish end resolve done | закрыть завершить закончить
open reopen restore | восстановить
approve accept allow permit confirm | одобрить подтвердить разрешить принять
reject refuse deny decline block forbid | отклонить запретить заблокировать
assign delegate give | назначить
attach upload add insert hang | прикрепить загрузить приложить
download export get | скачать выгрузить
count many number total sum | количество сколько посчитать
compare diff difference versus | сравнить разница
archive hide | архивировать
subscribe watch follow | подписаться следить
invite ask request | пригласить попросить
link relate connect | связать
pay charge bill collect | оплатить списать
refund return reimburse repay | вернуть возместить
record log report note book | записать сообщить
sign join subscribe enrol | подписать оформить
"""
"""Verbs that people use for the same deed, a deed a line: English, then Russian."""

NOUNS = """
repository repo | репозиторий
pull pr mr | пул-реквест реквест
issue ticket bug task defect | задача тикет ошибка ошибок баг
user person people account member employee colleague someone | пользователь человек сотрудник участник
customer client buyer | клиент покупатель заказчик
invoice bill | счет
message mail email letter | письмо писем сообщение почта
file document | файл документ
folder directory | папка папок каталог
branch | ветка веток
commit | коммит
team group | команда группа
comment remark note | комментарий замечание
attachment | вложение
label tag keyword topic | метка меток тег
release version | релиз версия
payment pay | платеж оплата
refund | возврат
money fund amount | деньги денег средства сумма
balance | баланс
subscription plan | подписка подписок тариф
discount coupon | скидка скидок купон
link address url | ссылка ссылок адрес
role permission access right | роль права доступ
setting option configuration preference | настройка
key | ключ
secret password credential | секрет пароль
webhook hook callback | вебхук
log output trace | журнал лог
report statistic | отчет
project | проект
board | доска
sprint | спринт
workflow pipeline ci job build action | сборка сборок пайплайн
organization company org | организация компания
change modification edit | изменение
history changelog log | история
status state | статус состояние
price cost fee | цена стоимость
product item good | товар продукт
order purchase | заказ
date day time | дата время
search query | поиск запрос
name title | имя название
picture image photo screenshot | картинка изображение снимок
code source | код
page site | страница
event | событие
card | карта
bank | банк
tax vat | налог
notification alert | уведомление
type kind sort category | тип вид категория
"""
"""General words for things of software, a thing a line: English, then Russian."""

_ASKING = """
what which who whom whose how when where is are does did was were has have am can may
"""
ASKING = frozenset(_ASKING.split())
"""Words that begin a question: somebody wants to read."""
_SMALL = """
a an the of to in on at for from by with without and or as into about over under be been being it its this that these
those i me my we our us you your he she they their them there here do does did done is are was were has have had will
would can could should may might am not no so than then too very just please want wants need needs let someone something
anything everything any all some each every one which what who whom whose how when where why if
и в во на с со к ко по о об от до для из за у не что как мне мои мой моя мое меня я мы нам наш ты он она они это этот
эта кто где когда какие какой какая все всех есть ли бы же
"""
_STOP = frozenset(_SMALL.split())


_PHRASES = (
    (r"get(ting)? rid of|take (\w+ )?(off|away)|throw away", "delete"),
    (r"(turn|switch) (\w+ )?off", "disable"),
    (r"(turn|switch) (\w+ )?on", "enable"),
    (r"set up|put up|sign up|open up", "create"),
    (r"look up|look for", "search"),
    (r"bring back|put back", "restore"),
    (r"kick off|set off", "run"),
    (r"up to date", "update"),
    (r"call off|give up", "cancel"),
    (r"how (many|much)", "count"),
)
_PHRASE = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), word) for pattern, word in _PHRASES]


def plain(text: str) -> str:
    """Give a question with its phrasal verbs as verbs of one word."""
    for pattern, word in _PHRASE:
        text = pattern.sub(word, text)
    return text


def without_stop_words(text: str) -> list[str]:
    """Give the words of a question that say something; all of them where none does."""
    found = split(text)
    return [word for word in found if word not in _STOP] or found


def _lines(table: str) -> Iterator[list[str]]:
    for line in table.strip().replace("\n    ", " ").splitlines():
        yield [word for word in re.split(r"[\s|]+", line) if word]


def _concepts(tables: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for table in tables:
        for line in _lines(table):
            for word in line:
                for part in _WORD.findall(word):
                    concepts = found.setdefault(stem(part), [])
                    if (name := _CONCEPT + line[0]) not in concepts:
                        concepts.append(name)
    return {word: tuple(names) for word, names in found.items()}


_VERBS = _concepts([VERBS])
_ALL = _concepts([VERBS, NOUNS])


def concepts(word: str) -> tuple[str, ...]:
    """Give the concepts of a stem."""
    return _ALL.get(word, ())


def is_small(word: str) -> bool:
    """Whether a folded word only holds others together."""
    return word in _STOP


def deeds(word: str) -> tuple[str, ...]:
    """Give the concepts of a stem that is a verb."""
    return _VERBS.get(word, ())
