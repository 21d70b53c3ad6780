"""In which language a message is, by its small words, and the sentence that says what is understood."""

import re

_WORDS = {
    "German": "ich du er sie es wir ihr der die das den dem ein eine einen einem ist sind war haben hat "
    "habe bitte nicht und oder aber "
    "mit für auf von zu zum zur wie was wer wo wann warum kannst könntest mir mich dir dich morgen heute "
    "gestern uhr noch schon "
    "auch nur wenn dass erinnere erinnern wird werden welche welcher danke guten hallo mach gibt gib bei "
    "nach über alle kein keine",
    "French": "je tu il elle nous vous ils elles le la les un une des du de et ou mais est sont était ai as "
    "a avez avons pas ne que qui "
    "quoi où quand comment pourquoi quel quelle quels pour avec sur dans chez mon ma mes ton ta votre notre "
    "demain hier "
    "aujourd'hui rappelle rappelez moi merci bonjour salut s'il peux peux-tu pouvez c'est quelle l'adresse "
    "fait faire à",
    "Spanish": "yo tú él ella nosotros el la los las un una unos y o pero es son está están era he ha han "
    "no que qué quién dónde cuándo "
    "cómo por para con en de del al mi mis tu su nuestro mañana hoy ayer recuérdame recuerda gracias hola "
    "puedes podrías "
    "tengo tiene hay hace hará tiempo favor me te se lo muy",
    "Italian": "io tu lui lei noi voi il lo la gli le un una e o ma è sono era ho hai ha non che chi dove "
    "quando come perché per con su "
    "di del della mio mia tuo nostro domani oggi ieri ricordami grazie ciao puoi potresti c'è fa tempo alle",
    "Portuguese": "eu você ele ela nós o a os as um uma e ou mas é são está era não que quem onde quando "
    "como por para com em de do da "
    "meu minha seu nosso amanhã hoje ontem lembre obrigado obrigada olá pode tem há fazer às",
    "Polish": "ja ty on ona my wy oni i lub ale jest są był była mam masz ma nie tak co kto gdzie kiedy jak "
    "dlaczego dla z ze na do od w we po przez proszę dziękuję cześć dzień dobry jutro dzisiaj dziś "
    "wczoraj czy "
    "mi mnie się możesz jaka jaki jakie godzina przypomnij o",
    "Swedish": "jag du han hon vi ni de och eller men är var har hade inte vad vem när hur varför för "
    "med på av "
    "till från min mitt din ditt vår imorgon idag igår tack hej kan kunde snälla mig dig det en ett om "
    "att klockan",
    "Turkish": "ben sen biz siz onlar ve veya ama bir bu şu ne kim nerede nasıl neden için ile değil var yok "
    "yarın bugün dün lütfen teşekkürler merhaba bana beni mi mı saat kaç hava hatırlat",
    "Czech": "já ty on ona my vy oni a nebo ale je jsou byl byla mám máš má ne co kdo kde kdy jak proč pro s "
    "na do od v ve po prosím děkuji ahoj zítra dnes včera mi mě se můžeš jaké jaký kolik hodin",
    "Dutch": "ik jij je hij zij wij het een de en of maar is zijn was heb heeft niet dat wie wat waar "
    "wanneer hoe waarom voor met op van "
    "naar mijn jouw ons morgen vandaag gisteren herinner bedankt hallo kun kan alsjeblieft om aan bij nog "
    "ook",
}
_SETS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_ENGLISH = frozenset(
    "the a an is are was were be been do does did have has had i you he she it we they my your our their me "
    "us them of to "
    "in on at for from with by about and or but not no so if that this these those what who when where why "
    "how which can "
    "could will would should may please there any some all up out off then now today tomorrow one as into "
    "over after "
    "before remind email mail run make get give tell show need want like just only more most".split()
)
_MARKS = re.compile(r"[äöüß¿¡ñçéèêàâîôûãõœąćęłńśźżåğışčďěňřšťůž]")
_LETTERS = {
    "German": re.compile("ß"),
    "Spanish": re.compile("[¿¡ñ]"),
    "Portuguese": re.compile("[ãõ]"),
    "French": re.compile("[œèêàâîôû]"),
    "Polish": re.compile("[ąćęłńśźż]"),
    "Swedish": re.compile("å"),
    "Turkish": re.compile("[ğışı]"),
    "Czech": re.compile("[ďěňřťů]"),
}
"""Letters by which languages with the same small words are told apart."""
_SCRIPTS = {
    "Russian": re.compile(r"[\u0400-\u04ff]{2}"),
    "Greek": re.compile(r"[\u0370-\u03ff]{2}"),
    "Japanese": re.compile(r"[\u3040-\u30ff]"),
    "Chinese": re.compile(r"[\u4e00-\u9fff]{2}"),
    "Korean": re.compile(r"[\uac00-\ud7af]{2}"),
    "Arabic": re.compile(r"[\u0600-\u06ff]{2}"),
    "Hebrew": re.compile(r"[\u0590-\u05ff]{2}"),
    "Hindi": re.compile(r"[\u0900-\u097f]{2}"),
}
SENTENCES = {
    "German": "Ohne Sprachmodell verstehe ich nur Englisch: Bitte schreiben Sie es auf Englisch, oder "
    "richten Sie ein Modell ein "
    "(MAILROOM_BRAIN).",
    "French": "Sans modèle de langue, je ne comprends que l'anglais : écrivez en anglais, ou configurez un "
    "modèle (MAILROOM_BRAIN).",
    "Spanish": "Sin un modelo de lenguaje solo entiendo inglés: escríbalo en inglés o configure un modelo "
    "(MAILROOM_BRAIN).",
    "Italian": "Senza un modello linguistico capisco solo l'inglese: scriva in inglese o configuri un "
    "modello (MAILROOM_BRAIN).",
    "Portuguese": "Sem um modelo de linguagem só entendo inglês: escreva em inglês ou configure um modelo "
    "(MAILROOM_BRAIN).",
    "Dutch": "Zonder taalmodel begrijp ik alleen Engels: schrijf het in het Engels, of stel een model in "
    "(MAILROOM_BRAIN).",
    "Polish": "Bez modelu językowego rozumiem tylko angielski: proszę pisać po angielsku lub skonfigurować "
    "model (MAILROOM_BRAIN).",
    "Swedish": "Utan språkmodell förstår jag bara engelska: skriv på engelska eller ställ in en modell "
    "(MAILROOM_BRAIN).",
    "Turkish": "Dil modeli olmadan yalnızca İngilizce anlıyorum: İngilizce yazın ya da bir model ayarlayın "
    "(MAILROOM_BRAIN).",
    "Czech": "Bez jazykového modelu rozumím jen angličtině: pište anglicky, nebo nastavte model "
    "(MAILROOM_BRAIN).",
    "Russian": "Без языковой модели я понимаю только английский: напишите по-английски или настройте модель "
    "(MAILROOM_BRAIN).",
    "Greek": "Χωρίς γλωσσικό μοντέλο καταλαβαίνω μόνο αγγλικά: γράψτε στα αγγλικά ή ορίστε ένα μοντέλο "
    "(MAILROOM_BRAIN).",
    "Japanese": "言語モデルがないと英語しか理解できません。英語で書くか、"
    "モデルを設定してください (MAILROOM_BRAIN)。",
    "Chinese": "没有语言模型时我只懂英语：请用英语写，或设置一个模型 (MAILROOM_BRAIN)。",
    "Korean": "언어 모델이 없으면 영어만 이해합니다. 영어로 쓰거나 모델을 설정해 주세요 (MAILROOM_BRAIN).",
    "Arabic": "بدون نموذج لغوي أفهم الإنجليزية فقط: اكتب بالإنجليزية أو اضبط نموذجًا (MAILROOM_BRAIN).",
    "Hebrew": "ללא מודל שפה אני מבין רק אנגלית: כתבו באנגלית או הגדירו מודל (MAILROOM_BRAIN).",
    "Hindi": "भाषा मॉडल के बिना मैं केवल अंग्रेज़ी समझता हूँ: अंग्रेज़ी में लिखें या कोई मॉडल सेट करें (MAILROOM_BRAIN)।",
}
"""That without a model English is understood, in each language that is recognised."""


ENGLISH_ONLY = (
    "Without a model I understand English only: write in English, or set up a model (MAILROOM_BRAIN)."
)
"""The same for a language that is not recognised."""


def find_language(text: str) -> str:
    """The language of ``text`` if it is one of SENTENCES and not English; else an empty text."""
    for language, pattern in _SCRIPTS.items():
        if pattern.search(text):
            return language
    words = re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text.lower().replace("’", "'"))
    if not words:
        return ""
    english = sum(word in _ENGLISH for word in words)
    counts = {language: sum(word in known for word in words) for language, known in _SETS.items()}
    for language, letters in _LETTERS.items():
        counts[language] += bool(letters.search(text.lower()))
    best = max(counts, key=lambda language: counts[language])
    marked = bool(_MARKS.search(text.lower()))
    enough = counts[best] >= 2 or (marked and counts[best] >= 1 and len(words) <= 6)
    share = counts[best] / len(words)
    return best if enough and counts[best] > english + (0 if marked else 1) and share >= 0.25 else ""
