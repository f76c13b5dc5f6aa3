"""Endings after the digits of an ordinal, by language: "5de november", "5:e november", "5-го ноября".

For the languages without a table of their own, whose dates `locales` parses; and for the grammar, which must not take "5de november" or
"1er mai" for the whole month because a related language spells it alike. Letters are in NFKC ("1º" is "1o"). Source: moment/moment,
src/locale, ``dayOfMonthOrdinalParse``, commit 18aba135 (MIT), and the shorter spellings used in these languages ("3e", "5e", "3-go").
"""

from __future__ import annotations

_TABLE = """
    af: ste de e
    ca: r n t è a
    da: te de ste
    el: η ης ο
    fy: e ste de
    fr: er ère ere e ème eme re nd nde
    gl: o
    it: o °
    lt: -oji
    nb: te de ste
    nl: e ste de
    nn: te de ste
    no: te de ste
    pl: -go go -ego
    ru: -го го -й -ое -е -ого
    sv: :e :a e a
    uk: -го го -й -е -ого
    be: -га -і -ы -е -ага
    bg: -ти -ви -ри -ми -ев -ен
    mk: -ти -ви -ри -ми -ев -ен
"""
ORDINAL_ENDINGS = {
    line.split(":", 1)[0].strip(): frozenset(line.split(":", 1)[1].split())
    for line in _TABLE.strip().splitlines()
    if line.strip()
}
ANY_ENDING = frozenset().union(*ORDINAL_ENDINGS.values())
