"""Words of tools and of queries: split, folded, stemmed, and their synonyms. Pure.

English and Russian. A word becomes a stem; synonymous stems share a concept, whose name begins with `_CONCEPT`, and
stems of one subject another, whose name begins with `SUBJECT`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_CONCEPT = "="
SUBJECT = "~"
_MOST_TEXT = 20_000
"""Characters of one text that are read."""
_LONGEST_WORD = 40

READ, MAKE = "=get", "=create"

_UNLIKE = {"customer": "customer", "customers": "customer"}
"""Words that the stemmer would merge with a word of another meaning: custom."""


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the stem of one folded word."""
    if len(word) > _LONGEST_WORD or not word.isalpha():
        return word[:_LONGEST_WORD]
    if word in _UNLIKE:
        return _UNLIKE[word]
    return str(_stemmer("russian" if _CYRILLIC.search(word) else "english").stemWord(word))


@cache
def _stemmer(language: str) -> Any:
    import snowballstemmer  # of forty languages: a tenth of what a command imports that searches nothing

    return snowballstemmer.stemmer(language)


def split(text: str) -> list[str]:
    """Return the words of a text, folded: `listPullRequests` and `list_pull-requests` are the same three."""
    folded = unicodedata.normalize("NFKC", _CAMEL.sub(" ", text[:_MOST_TEXT])).casefold().replace("ё", "е")
    return _WORD.findall(folded)


def words(text: str) -> list[str]:
    """Return the stems of a text, in its order."""
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

SUBJECTS = """
finance money stock share invest investor investment crypto cryptocurrency bitcoin fund portfolio market trading
    dividend equity bond asset bank economy | финансы акция инвестиции биржа криптовалюта фонд портфель рынок
currency exchange convert dollar euro yen rate forex | валюта курс доллар евро обмен
weather forecast temperature rain snow wind climate humidity sunny storm | погода прогноз температура дождь снег ветер
travel trip journey flight hotel vacation holiday itinerary tour tourist destination airline airport visit
    accommodation |
    путешествие поездка рейс отель отпуск маршрут тур гостиница
map direction route location place geography coordinate latitude longitude nearby near | карта маршрут место
    координаты рядом
restaurant dinner lunch cafe reservation table dine eat cuisine | ресторан ужин обед кафе столик
food recipe cook diet nutrition meal ingredient calorie healthy eat kitchen | еда рецепт готовить диета питание
    блюдо калория
health doctor medical medicine patient disease hospital symptom clinic drug diagnosis | здоровье врач медицина
    пациент болезнь
sport game team match player league score football soccer basketball tennis | спорт матч команда игрок лига футбол
game play puzzle chess fun quiz | игра играть головоломка шахматы
music song artist album playlist singer band audio track lyrics | музыка песня исполнитель альбом плейлист
film movie cinema series show tv actor episode stream watch | фильм кино сериал актер
video clip youtube footage | видео ролик
podcast episode audio listen | подкаст слушать
book novel author read literature library chapter | книга роман автор литература библиотека
news headline article press journalist current latest | новости заголовок статья пресса
research paper academic scientific study science scholar journal arxiv publication citation peer | исследование научный
    статья наука публикация
course learn lesson teach education study class tutorial training student school university | курс учить урок
    обучение студент школа
job career employment hire salary vacancy position work recruiter employer | работа вакансия карьера зарплата
resume cv cover | резюме
house home apartment property rent real estate tenant mortgage bedroom flat | дом квартира недвижимость аренда ипотека
car vehicle drive auto automobile dealer | машина автомобиль
shop store buy purchase product item price cheap deal retail | магазин купить покупка товар цена
discount coupon promo sale deal bargain code cheap saving | скидка купон акция
gift present birthday surprise | подарок
fashion cloth dress outfit wear style shoe shirt | мода одежда платье обувь стиль
law legal court lawyer attorney statute contract legislation | закон юрист суд договор
company business corporate firm startup enterprise industry | компания бизнес фирма
charity nonprofit donate donation cause | благотворительность пожертвование
translate language english translation grammar french spanish chinese vocabulary | перевод язык переводить английский
write text rewrite essay paragraph content improve proofread style edit | текст писать сочинение
summarize summary brief digest key | резюме кратко обзор
note memo remember reminder memory recall | заметка напоминание память запомнить
schedule calendar appointment meeting time event plan | расписание календарь встреча
document pdf file text doc | документ файл
website site web page url link domain browse online internet | сайт страница ссылка интернет
seo keyword rank search traffic google backlink | ключевое
marketing ad advertisement campaign advertise promote brand | реклама маркетинг бренд
image picture photo draw art illustration visual graphic design | картинка рисунок изображение фото искусство
chart graph diagram plot visualize visualization data | график диаграмма
data database sql table dataset query | данные база таблица
code program software developer programming script repository github library function | код программа разработчик
math calculate formula equation number compute calculator | расчет формула уравнение посчитать
space planet star astronomy nasa mars moon | космос планета звезда
earthquake disaster seismic flood | землетрясение
horoscope zodiac astrology tarot fortune sign | гороскоп зодиак
joke meme funny humor | шутка мем юмор
review rating opinion feedback recommend | отзыв рейтинг мнение рекомендация
compare comparison versus difference better | сравнить сравнение разница
recommend suggest suggestion advice idea recommendation best | посоветовать рекомендация идея
email mail message send inbox | письмо почта
chat conversation talk bot assistant dialog | чат беседа
social media twitter instagram facebook post follower tweet | соцсеть
tax income deduction | налог доход
insurance policy claim cover | страховка
energy electricity power solar gas fuel petrol oil | энергия электричество топливо газ
environment pollution air quality carbon emission green water | экология воздух
plant garden flower grow crop agriculture farm soil | растение сад ферма урожай
animal pet dog cat bird | животное собака кошка
child kid baby parent family | ребенок дети семья
train bus subway transport transit station metro rail | поезд автобус метро транспорт
network internet security vulnerability hack attack threat | сеть безопасность уязвимость
history ancient historical past century | история
religion bible god prayer quran | религия
politics government election parliament vote minister | политика правительство выборы
ticket event concert theater festival show | билет концерт театр
voice speech audio sound speak | голос речь звук
3d model design build | модель
"""
"""Words of one subject, a subject a line: English, then Russian. Weaker than synonyms: whoever asks about a hotel may
mean a tool for trips.
"""

_ASKING = """
what which who whom whose how when where is are does did was were has have am can may
"""
ASKING = frozenset(_ASKING.split())
"""Words that begin a question: somebody wants to read."""
_SMALL = """
a an the of to in on at for from by with without and or as into about over under be been being it its this that these
those i me my we our us you your he she they their them there here do does did done is are was were has have had will
would can could should may might am not no so than then too very just please want wants need needs let someone something
anything everything any all some each every one which help assist assistance like hi hello thank thanks kindly also
what who whom whose how when where why if
и в во на с со к ко по о об от до для из за у не что как мне мои мой моя мое меня я мы нам наш ты он она они это этот
эта кто где когда какие какой какая все всех есть ли бы же
"""
_STOP = frozenset(_SMALL.split())
_FILLERS = """
know tell find found look search show see give get got provide recommend suggest explain understand learn make sure try
use able possible available interest information info detail specific certain particular various different related based
way best good great new latest recent current currently today now many much thing stuff
знать сказать найти искать показать дать получить рассказать использовать возможно информация подробно разный лучший
хороший новый сейчас сегодня много
"""
"""Words of asking, which few tools have and many questions: rare as they are, they say little of the tool."""


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
    """Return a question with its phrasal verbs as verbs of one word."""
    for pattern, word in _PHRASE:
        text = pattern.sub(word, text)
    return text


def without_stop_words(text: str) -> list[str]:
    """Return the meaningful words of a query; all of them if there are none."""
    found = split(text)
    return [word for word in found if word not in _STOP] or found


_SENTENCE = re.compile(r"[.;!?]+(?:\s+|$)|[\r\n]+")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text. A dot within a name or number ends none."""
    return [part for part in _SENTENCE.split(text) if part.strip()]


def _lines(table: str) -> Iterator[list[str]]:
    for line in table.strip().replace("\n    ", " ").splitlines():
        yield [word for word in re.split(r"[\s|]+", line) if word]


def _concepts(tables: Iterable[str], sign: str = _CONCEPT) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for table in tables:
        for line in _lines(table):
            for word in line:
                for part in _WORD.findall(word):
                    concepts = found.setdefault(stem(part), [])
                    if (name := sign + line[0]) not in concepts:
                        concepts.append(name)
    return {word: tuple(names) for word, names in found.items()}


@cache
def _verbs() -> Mapping[str, tuple[str, ...]]:
    return _concepts([VERBS])


@cache
def _same() -> Mapping[str, tuple[str, ...]]:
    return _concepts([VERBS, NOUNS])


@cache
def _all() -> Mapping[str, tuple[str, ...]]:
    near = _concepts([SUBJECTS], SUBJECT)
    return {word: _same().get(word, ()) + near.get(word, ()) for word in {*_same(), *near}}


def concepts(word: str) -> tuple[str, ...]:
    """Return the concepts of a stem."""
    return _all().get(word, ())


def is_small(word: str) -> bool:
    """Return whether a folded word only holds others together."""
    return word in _STOP


@cache
def _fillers() -> frozenset[str]:
    return frozenset(map(stem, _FILLERS.split()))


def is_filler(word: str) -> bool:
    """Return whether a stem is a word of asking."""
    return word in _fillers()


def is_thing(word: str) -> bool:
    """Return whether a stem is a general word for a thing of software, or a verb."""
    return word in _same()


def deeds(word: str) -> tuple[str, ...]:
    """Return the concepts of a stem that is a verb."""
    return _verbs().get(word, ())
