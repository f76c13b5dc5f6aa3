"""The rest of a question without its time expression: a topic, or only question words.

"What did we discuss last week" asks for everything of last week; "what did we decide about the budget last week" has a topic
that can be ranked by. The difference is whether any word is left that is not a question word.
"""

from __future__ import annotations

import functools
import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")

# Words of questions, by language: question words, pronouns, auxiliaries, and the verbs and nouns of talking and remembering.
_ASKING = {
    "en": """what which who when where how why did do does done doing was were is are am be been have has had having can could
        would will shall should may please i you we us me my our your they them he she it its this that these those there here
        the a an and or of on in at to for from with by about any all everything anything something some things thing stuff
        tell show list give get find see let know remind remember recall recalled discuss discussed discussing discussion
        talk talked talking speak spoke spoken say said saying mention mentioned chat chatted happen happened happening
        decide decided go went on up back over note notes noted store stored save saved write wrote written memory memories
        conversation conversations entries didn't what's i've we've""",
    "de": """was welche welcher welches wer wann wo wie warum haben hat habe hatte hatten habt war waren ist sind wurde wurden
        werden kann kannst können bitte ich du wir uns mich mir mein unser dein sie er es das die der den dem des ein eine
        einen und oder von im in an am auf zu zum zur für mit über alles etwas irgendetwas dinge sag zeig zeige zeigen finde
        erinnere erinnern erinnerst gesprochen besprochen geredet gesagt erzählt erwähnt passiert geschehen entschieden
        notiert gespeichert geschrieben notizen erinnerungen gespräch gespräche los da so""",
    "fr": """que qu quoi quel quelle quels quelles qui quand où comment pourquoi est ce a as ai avons avez ont était étaient
        été sommes suis peux peut pouvez je tu nous vous on il elle ils elles moi me m mon ma mes notre nos votre le la les l
        un une des du de d et ou à au aux en dans sur pour par avec tout toutes tous chose choses quelque dis montre
        rappelle souviens discuté parlé dit raconté mentionné passé décidé noté enregistré écrit notes souvenirs
        conversation conversations t s y""",
    "es": """qué que cuál cuáles quién cuándo dónde cómo por fue fueron es son está estaba hemos han he ha había puedes
        puede yo tú nosotros nos me mi mis nuestro el la los las lo un una unos unas de del y o a al en sobre para con todo
        toda todos cosas cosa algo dime muestra recuerda recuerdas discutimos hablamos dijimos dijo dije mencioné
        mencionamos pasó ocurrió decidimos anotado guardado escrito notas recuerdos conversación conversaciones se""",
    "pt": """que o quê qual quais quem quando onde como por foi foram é são estava temos tem tenho havia pode podes eu tu
        você nós nos me meu minha nosso os a as um uma de do da dos das e ou em no na nos nas sobre para com tudo todos
        coisas coisa algo diga mostra mostre lembra lembre discutimos falamos dissemos disse mencionei mencionamos
        aconteceu decidimos anotado guardado escrito notas memórias lembranças conversa conversas se""",
}
# Chinese and Japanese have no spaces, so these are removed from the text, longest first.
_ASKING_UNSPACED = """我们 我們 我 你 您 大家 什么 什麼 甚么 哪些 谁 誰 怎么 怎麼 为什么 讨论 討論 谈论 談論 谈 談 聊 说 說 讲
    講 提到 提 过 過 了 的 吗 嗎 呢 有 没有 沒有 做 发生 發生 决定 決定 记得 記得 记录 記錄 告诉 告訴 显示
    顯示 所有 一切 事情 事 内容 內容 是 在 关于 關於 和 与 請 请 私たち 私 僕 何 なに どれ どの どう なぜ 話
    した しました しましたか していました して 話し 話した 話しました 議論 相談 言った 言いました 言い 起き
    起きた 決め 決めた 決めました 覚え 覚えて いる ます ました ましたか です でした か を に は が の と で
    も について 全部 すべて こと もの 見せて 教えて"""


@functools.cache
def _words() -> frozenset[str]:
    return frozenset(word for words in _ASKING.values() for word in words.split())


@functools.cache
def _unspaced() -> re.Pattern[str]:
    words = sorted(set(_ASKING_UNSPACED.split()), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)))


def has_topic(rest: str) -> bool:
    """True if *rest*, a question without its time expression, contains anything to rank memories by."""
    for word in _WORD.findall(rest.casefold()):
        for run in _UNSPACED.findall(word):
            if _unspaced().sub("", run):
                return True
        spaced = _UNSPACED.sub(" ", word).split()
        if any(piece not in _words() and not set(re.split("['’]", piece)) <= _words() for piece in spaced):
            return True
    return False
