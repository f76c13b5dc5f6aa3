"""Words that are not times without support, by language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinite_memory.time_expressions.lexicon import Unit

if TYPE_CHECKING:
    from infinite_memory.time_expressions.locales.reader import Hit

AMBIGUOUS = {
    "ar": frozenset({"مارس", "في اليوم", "ذلك اليوم"}),  # practised, in a day, that day
    "el": frozenset({"πέρσι"}),  # Percy
    "ru": frozenset({"среда", "марта"}),  # surroundings, a woman's name
    "tr": frozenset({"pazar"}),  # market
}
"""Names and words that usually mean something else; measured on texts without times. As the whole text they are still times."""

ORDINAL_WEEKDAYS = frozenset({"vi", "he", "el"})
"""Languages whose weekdays are ordinals ("thứ hai" is Monday, and the second of anything): they need a date or a week beside them."""

NOT_ALONE = frozenset({"leo", "sutra", "mot", "ani", "meja", "از", "باز"})
"""Words that, as a whole text, are usually something else: names, words of other languages."""

_EDGE_TABLE = """
    nl: sinds vanaf tot voor na tussen
    it: da dal dalla dallo dall fino prima dopo tra fra entro
    pl: od do przed po między
    cs: od do před po mezi
    sk: od do pred po medzi
    sv: sedan till före efter mellan innan
    da: siden til før efter mellem indtil inden
    nb: siden til før etter mellom inntil innen
    nn: sidan til før etter mellom
    no: siden til før etter mellom
    ru: с со до перед после между
    uk: з із до перед після між від
    be: з да перад пасля
    bg: от до преди след между
    sr: од до пре после између od do pre posle između
    hr: od do prije poslije nakon između
    bs: od do prije poslije nakon između
    sl: od do pred po med
    mk: од до пред по меѓу
    ro: din până înainte după între
    el: από μέχρι έως πριν μετά μεταξύ
    he: מאז עד לפני אחרי בין
    ar: منذ حتى قبل بعد بين
    fa: از تا قبل بعد بین
    ca: des fins abans després entre
    gl: desde ata antes despois entre
    id: sejak dari sampai hingga sebelum setelah sesudah antara
    ms: sejak dari hingga sebelum selepas antara
    vi: từ đến trước sau giữa
    th: ตั้งแต่ จนถึง ก่อน หลัง ระหว่าง
    lt: nuo iki prieš po tarp
    lv: no līdz pirms pēc starp
    et: alates kuni enne pärast
    fi: ennen jälkeen asti saakka lähtien
    hu: óta előtt után között
    tr: beri önce sonra kadar
    ko: 이후 이전 전 후 부터 까지
    hi: से तक पहले बाद
"""
EDGES = {
    line.split(":")[0].strip(): frozenset(line.split(":")[1].split())
    for line in _EDGE_TABLE.strip().splitlines()
    if line.strip()
}
"""Words for since, until, before, after and between, in their position next to a time."""

_HALF_TABLE = """
    nl: half halve anderhalf anderhalve
    it: mezz mezzo mezza
    pl: pół półtora półtorej
    cs: půl
    sk: pol
    sl: pol
    hr: pol
    bs: pol po
    sr: pol po пол по
    sv: halv halva halvt
    da: halv halvt halvanden halvandet
    nb: halv halvt halvannen halvannet
    nn: halv halvt halvannan
    no: halv halvt halvannen halvannet
    ru: половиной полтора полторы
    uk: пів половиною півтора півтори
    bg: половин половина
    mk: пол половина
    ro: jumătate
    el: μισή μισό μισού
    he: חצי -וחצי
    ar: نصف -ونصف
    fa: نیم
    ca: mig mitja
    gl: medio media
    id: setengah
    ms: setengah
    vi: nửa -rưỡi
    th: -ครึ่ง
    lt: pusė pusės pusantro pusantros
    lv: pus pusotra
    et: pool poole poolteist
    fi: puoli puolen puolitoista
    hu: fél másfél
    tr: yarım -buçuk
    ko: 반 -반
"""
HALVES = {
    line.split(":")[0].strip(): frozenset(line.split(":")[1].split())
    for line in _HALF_TABLE.strip().splitlines()
    if line.strip()
}
"""Words for half, before a unit and after "and"; with a dash, directly after the unit."""

DASHES = frozenset("-–—")


def is_edge(hit: Hit, language: str) -> bool:
    """True if a word for since, until, before or after is beside the time: an open range must not be reduced to its bound."""
    edges = EDGES.get(language, frozenset())
    before, after = hit.before.split()[-1:], hit.after.split()[:1]
    return bool(edges.intersection(before) or edges.intersection(after))


def is_halved(hit: Hit, language: str) -> bool:
    """True if a word for half belongs to a count of units and was not parsed: "před hodinou a půl" is not an hour ago."""
    is_clock = hit.span.grain <= Unit.HOUR and hit.span.start is not None and hit.span.start.tzinfo is None
    if len(hit.words) < 2 or is_clock:
        return False
    halves = HALVES.get(language, frozenset())
    before, after = hit.before.split()[-1:], hit.after.split()
    return bool(
        halves.intersection(before) or halves.intersection(after[1:2]) or {f"-{word}" for word in after[:1]} & halves
    )
