"""Messages in another language than English, which only a model understands."""

from typing import TYPE_CHECKING

from services.nexus.routing.languages import ENGLISH_ONLY, SENTENCES, find_language
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import ResultOutcome

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """

Wie spät ist es?
Kannst du mir bitte die Mails von gestern zeigen
Erinner mich morgen um acht an den Müll
was steht heute an
Quelle heure est-il ?
Rappelle-moi d'appeler le plombier demain matin
bonjour, est-ce que tout va bien avec les agents
annule le rapport de ce soir stp
manda un correo a Lucía y dile que llego tarde
hola, ¿qué puedes hacer?
che ore sono adesso
Ricordami di comprare il pane alle sei
puoi cercare un idraulico a Torino?
quanto abbiamo speso questo mese
Que dia é hoje?
apaga o lembrete do dentista por favor
Preciso que traduzam o folheto até amanhã
Hoe laat begint de vergadering?
zet melk op mijn lijstje voor vrijdag
wat is er vannacht gebeurd
Jaka będzie jutro pogoda?
przypomnij mi o spotkaniu o 15
Co nowego w projekcie?
Vad är klockan?
kan du boka in ett möte med Åsa på torsdag
Bugün hava nasıl olacak?
toplantıyı iptal et lütfen
明日の天気を教えてください
メールを確認して
"""


async def say_so(desk: "Desk", request: Request, _: Words) -> Answer:
    """In that language, that without a model English is understood."""
    language = find_language(request.text)
    return Answer(text=SENTENCES.get(language, ENGLISH_ONLY), outcome=ResultOutcome.FAILED)


TOOL = Tool(
    name="language",
    description="says in other languages that English is understood",
    examples=EXAMPLES,
    run=say_so,
    hidden=True,
)
